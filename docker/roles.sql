-- The logins of compose.yaml; run once, by the image's own set-up, as the server's superuser.
--   curator   owns the database: `freqdp init`, datasets, budgets. No superuser.
--   worker    builds and publishes; reads the sources that it is granted: GRANT SELECT ON ... TO worker.
-- The superuser itself (postgres) is used by nothing afterwards.
\set curator_password `cat /run/secrets/curator_password`
\set worker_password `cat /run/secrets/worker_password`

CREATE ROLE curator LOGIN PASSWORD :'curator_password';
CREATE ROLE worker LOGIN PASSWORD :'worker_password';
CREATE ROLE freqdp_admin NOLOGIN;
CREATE ROLE freqdp_runner NOLOGIN;
CREATE ROLE freqdp_analyst NOLOGIN;
CREATE ROLE freqdp_auditor NOLOGIN;
GRANT freqdp_runner TO freqdp_admin;
-- the curator hands them on: GRANT freqdp_analyst TO somebody
GRANT freqdp_admin, freqdp_runner, freqdp_analyst, freqdp_auditor TO curator WITH ADMIN OPTION;
GRANT freqdp_runner TO worker;

CREATE DATABASE freqdp OWNER curator;
REVOKE ALL ON DATABASE freqdp FROM PUBLIC;
GRANT CONNECT ON DATABASE freqdp TO worker, freqdp_analyst, freqdp_auditor;
\connect freqdp
CREATE EXTENSION IF NOT EXISTS postgis;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
