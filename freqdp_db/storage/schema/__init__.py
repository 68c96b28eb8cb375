"""Our schemas: tables, upgrades, replaceable objects and rights."""
