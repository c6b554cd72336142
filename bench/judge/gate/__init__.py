"""The gate for CI: does the code still give the numbers of the stored baseline distribution?"""
