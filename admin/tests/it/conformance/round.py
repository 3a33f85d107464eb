"""Creates, reads, updates and deletes with the client generated from the document."""

import sys

from millrace_api import AuthenticatedClient
from millrace_api.api.organizations import (
    organizations_create,
    organizations_destroy,
    organizations_list,
    organizations_partial_update,
    organizations_retrieve,
)
from millrace_api.models import NewOrganization, Organization, PatchOrganization

url, key = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=key)

created = organizations_create.sync(client=client, body=NewOrganization(name="Generated"))
assert isinstance(created, Organization), created
assert created.name == "Generated", created

read = organizations_retrieve.sync(created.id, client=client)
assert read == created, (read, created)

changed = organizations_partial_update.sync(
    created.id, client=client, body=PatchOrganization(name="Changed")
)
assert changed.name == "Changed", changed

names = [one.name for one in organizations_list.sync(client=client).results]
assert "Changed" in names, names

deleted = organizations_destroy.sync_detailed(created.id, client=client)
assert deleted.status_code == 204, deleted
gone = organizations_retrieve.sync_detailed(created.id, client=client)
assert gone.status_code == 404, gone
print("created, read, changed, listed, deleted")
