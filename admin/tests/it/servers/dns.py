"""A nameserver on loopback, UDP and TCP. Prints its port.

usage: dns.py ZONE

ZONE is records in the format of zone files, and so are the lines of standard input, each of which
is answered with "added". Three names are our own: below `silent.` nothing
is answered, below `broken.` SERVFAIL, and below `apart.` a CNAME comes without what it leads to.
It ends when its standard input does.
"""

import sys

from dnslib import QTYPE, RCODE, RR, DNSError
from dnslib.server import BaseResolver, DNSLogger, DNSServer


# Longer answers are cut, so that they are asked for by TCP.
UDP_BYTES_MAX = 1232


class Zone(BaseResolver):
    def __init__(self, text):
        self.records = []
        self.add(text)

    def add(self, text):
        self.records = self.records + RR.fromZone(text)

    def of(self, name, kind):
        matching = [record for record in self.records if record.rname == name]
        exact = [record for record in matching if QTYPE[record.rtype] in (kind, "CNAME")]
        return matching, exact

    def resolve(self, request, handler):
        reply = request.reply()
        name, kind = request.q.qname, QTYPE[request.q.qtype]
        if name.matchSuffix("silent."):
            raise DNSError("no answer")
        if name.matchSuffix("broken."):
            reply.header.rcode = RCODE.SERVFAIL
            return reply
        known = False
        for _ in range(8):
            matching, exact = self.of(name, kind)
            known = known or bool(matching)
            reply.add_answer(*exact)
            aliases = [record for record in exact if QTYPE[record.rtype] == "CNAME"]
            if kind == "CNAME" or not aliases or name.matchSuffix("apart."):
                break
            name = aliases[0].rdata.label
        if not known:
            reply.header.rcode = RCODE.NXDOMAIN
        if handler.protocol == "udp" and len(reply.pack()) > UDP_BYTES_MAX:
            reply = request.reply()
            reply.header.tc = 1
        return reply


def start(zone, port, tcp):
    logger = DNSLogger(logf=lambda line: None)
    server = DNSServer(zone, port=port, address="127.0.0.1", tcp=tcp, logger=logger)
    server.start_thread()
    return server.server.server_address[1]


def serve(zone):
    """Both on one port: whether TCP's is free for UDP shows only when it is taken."""
    while True:
        port = start(zone, 0, tcp=True)
        try:
            return start(zone, port, tcp=False)
        except OSError:
            continue


zone = Zone(sys.argv[1])
print(serve(zone), flush=True)
for line in sys.stdin:
    zone.add(line)
    print('"added"', flush=True)
