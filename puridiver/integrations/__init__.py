"""The package beside other libraries: one file each, imported where it is used."""
