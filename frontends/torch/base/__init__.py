"""The tensor class of `fusewire.torch`, and the functions made from the tables of spellings."""
