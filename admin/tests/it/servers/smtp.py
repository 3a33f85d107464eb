"""An SMTP server on loopback. Prints its port, then each message that it took as a line of JSON.

usage: smtp.py [--tls CERTIFICATE KEY] [--user NAME PASSWORD] [--refuse CODE TIMES] [--silent]

--tls     STARTTLS, without which nothing is taken
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
            "encrypted": session.ssl is not None,
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
    parser.add_argument("--user", nargs=2)
    parser.add_argument("--refuse", nargs=2, type=int, default=[0, 0])
    parser.add_argument("--silent", action="store_true")
    return parser.parse_args()


def protocol(options):
    keywords = {}
    if options.tls:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*options.tls)
        keywords |= {"tls_context": context, "require_starttls": True}
    if options.user:
        wanted = tuple(word.encode() for word in options.user)

        def authenticate(server, session, envelope, mechanism, data):
            right = (data.login, data.password) == wanted
            return AuthResult(success=right, auth_data=data)

        keywords |= {
            "authenticator": authenticate,
            "auth_required": True,
            "auth_require_tls": bool(options.tls),
        }
    handler = Handler(*options.refuse)
    return lambda: asyncio.Protocol() if options.silent else SMTP(handler, **keywords)


async def main():
    loop = asyncio.get_running_loop()
    server = await loop.create_server(protocol(options()), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


# What clients do wrong is what some tests are about.
logging.disable()
asyncio.run(main())
