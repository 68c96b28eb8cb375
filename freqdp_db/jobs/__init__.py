"""The worker and the schedule: releases that were asked for in SQL."""
