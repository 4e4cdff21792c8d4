"""Scalar products of vectors nobody shows: the commodity-server protocol, parties and messages as objects."""

from graphs.secure.messages import Message, Transcript
from graphs.secure.parties import Aggregator, CommodityServer, Party
from graphs.secure.protocol import SecureProduct, SecureSimilarity, secure_product, secure_similarity

__all__ = [
    "Aggregator",
    "CommodityServer",
    "Message",
    "Party",
    "SecureProduct",
    "SecureSimilarity",
    "Transcript",
    "secure_product",
    "secure_similarity",
]
