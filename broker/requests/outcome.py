"""What a request handler is given of its caller, and what it may answer with. The connection carries it out."""

from odradek.broker.network.answers import Outcome, Reply, RequestContext, Respond, Silent, Wait

__all__ = ["Outcome", "Reply", "RequestContext", "Respond", "Silent", "Wait"]
