"""Records to tables: nothing here trains, measures or imports a framework."""
