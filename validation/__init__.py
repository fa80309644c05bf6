"""Every yes or no: may this payload run, and did the work hold. Pure rules; starts nothing."""
