"""One file for each thing that is checked: a function from the facts to results, and its remedy beside it."""
