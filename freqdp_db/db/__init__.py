"""All SQL: connections, COPY, schema, rights, and the rows of our own and of the user's tables."""
