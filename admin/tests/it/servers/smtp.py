"""An SMTP server on loopback. Prints its port, then each message that it took as a line of JSON.

usage: smtp.py [--tls CERTIFICATE KEY [--implicit]] [--user NAME PASSWORD] [--refuse CODE TIMES]
               [--silent]

--tls     STARTTLS, without which nothing is taken; --implicit: TLS from the first byte
--user    the one that may send
--refuse  answers the first messages with this code
--silent  accepts connections and says nothing
It ends when its standard input does.
"""

import argparse
import asyncio
import email
import email.policy
import json
import logging
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult


def part(message, kind):
    body = message.get_body((kind,))
    return body.get_content() if body else None


class Handler:
    def __init__(self, code, times):
        self.code, self.times = code, times

    async def handle_DATA(self, server, session, envelope):
        if self.times > 0:
            self.times -= 1
            return f"{self.code} not now"
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        headers = {name: str(value) for name, value in message.items()}
        assert len(headers) == len(message.items()), "a header twice"
        taken = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "encrypted": server.transport.get_extra_info("sslcontext") is not None,
            "user": (session.auth_data.login.decode() if session.auth_data else None),
            "headers": headers,
            "defects": [str(defect) for defect in message.defects],
            "text": part(message, "plain"),
            "html": part(message, "html"),
        }
        print(json.dumps(taken), flush=True)
        return "250 taken"


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tls", nargs=2)
    parser.add_argument("--implicit", action="store_true")
    parser.add_argument("--user", nargs=2)
    parser.add_argument("--refuse", nargs=2, type=int, default=[0, 0])
    parser.add_argument("--silent", action="store_true")
    return parser.parse_args()


def encryption(options):
    if not options.tls:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*options.tls)
    return context


def protocol(options, context):
    keywords = {}
    if context and not options.implicit:
        keywords |= {"tls_context": context, "require_starttls": True}
    if options.user:
        wanted = tuple(word.encode() for word in options.user)

        def authenticate(server, session, envelope, mechanism, data):
            right = (data.login, data.password) == wanted
            return AuthResult(success=right, auth_data=data)

        keywords |= {
            "authenticator": authenticate,
            "auth_required": True,
            "auth_require_tls": bool(options.tls) and not options.implicit,
        }
    handler = Handler(*options.refuse)
    return lambda: asyncio.Protocol() if options.silent else SMTP(handler, **keywords)


async def main():
    loop = asyncio.get_running_loop()
    chosen = options()
    context = encryption(chosen)
    server = await loop.create_server(
        protocol(chosen, context), "127.0.0.1", 0, ssl=context if chosen.implicit else None
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


# Broken conversations are what some tests are about.
logging.disable()
asyncio.run(main())
