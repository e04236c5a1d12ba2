"""Instruments for those who change recfact. They run in a checkout, and no installed package has them."""
