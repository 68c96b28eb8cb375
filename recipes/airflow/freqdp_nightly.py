"""Every night: ask freqdp for a new release, and wait until a worker has published it.

Needs the providers common.sql and postgres, a connection `freqdp` whose login is a member of
freqdp_runner, and a worker (`freqdp worker`) somewhere.
"""

from datetime import datetime, timedelta

from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator
from airflow.providers.common.sql.sensors.sql import SqlSensor

try:
    from airflow.sdk import DAG
except ImportError:  # Airflow 2
    from airflow import DAG

CONNECTION = "freqdp"
DATASET = "vans"
METHOD, EPSILON = "lg", "1.0"
OPTIONS = '{"rebuild": true, "keep": 7}'

with DAG(
    dag_id="freqdp_nightly",
    schedule="0 3 * * *",
    start_date=datetime(2024, 1, 1),
    catchup=False,
    # asking again costs nothing: an equal request on equal data is answered by the release that is there
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
    tags=["freqdp"],
) as dag:
    ask = SQLExecuteQueryOperator(
        task_id="ask",
        conn_id=CONNECTION,
        sql=f"SELECT freqdp.request_release('{DATASET}', '{METHOD}', {EPSILON}, '{OPTIONS}')",
    )
    # the reason of a refusal stands in freqdp.job, column error
    wait = SqlSensor(
        task_id="wait",
        conn_id=CONNECTION,
        sql="SELECT state FROM freqdp.job WHERE job_id = {{ ti.xcom_pull(task_ids='ask')[0][0] }}",
        success=lambda state: state == "done",
        failure=lambda state: state in ("refused", "failed", "cancelled"),
        mode="reschedule",
        poke_interval=60,
        timeout=6 * 3600,
        retries=0,
    )
    ask >> wait
