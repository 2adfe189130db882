"""What commands share: families from what a person types, points from files, tables to print."""
