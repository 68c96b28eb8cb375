"""Files and a generated city, as arrays for plain tables. Pure: it knows no database."""
