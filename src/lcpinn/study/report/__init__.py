"""What a study shows: cells out of records, tables and figures out of cells, one page of it all."""
