"""A document, or a vector, in one cluster each, with L responsibilities at most (Hughes & Sudderth
2016).
"""
