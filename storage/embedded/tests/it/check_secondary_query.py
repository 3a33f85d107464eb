"""A project's login that claims to be another user. Arguments: port, its password, another's token."""
import logging
import sys

from clickhouse_driver import Client
from clickhouse_driver.clientinfo import ClientInfo

port, password, token = sys.argv[1:]
logging.disable(logging.CRITICAL)
write = ClientInfo.write


def write_secondary(self, revision, out):
    self.query_kind = ClientInfo.QueryKind.SECONDARY_QUERY
    self.initial_user = "project_query"
    self.initial_query_id = "claimed"
    self.initial_address = "127.0.0.1:1"
    return write(self, revision, out)


COUNT = "SELECT count(), sum(team_id = 2) FROM project.events"
for kind in (write, write_secondary):
    ClientInfo.write = kind
    for settings in ({}, {"readonly": 0}):
        client = Client("127.0.0.1", port=int(port), user="project", password=password)
        settings = {**settings, "query_cache_tag": token}
        try:
            rows = client.execute(COUNT, settings=settings)
        except Exception as error:
            # A first statement may not write the setting `readonly`.
            assert getattr(error, "code", None) == 164, error
            continue
        assert rows[0][1] == 0, (kind, settings, rows)
ClientInfo.write = write
client = Client("127.0.0.1", port=int(port), user="project", password=password)
assert client.execute(COUNT) == [(1, 0)]
print("all is well")
