"""The data sets known by name, one file each: a subclass of `puridiver.data.base.DataSet`."""
