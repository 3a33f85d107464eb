"""Ten queries of analysts. `{plan}` and the like stand for the property, as a table has it."""

QUERIES = [
    (
        "unique users by day",
        "SELECT toDate(timestamp) AS day, uniq(distinct_id) FROM {table} "
        "WHERE {plan} = 'team' GROUP BY day ORDER BY day",
    ),
    (
        "top ten values of a property",
        "SELECT {$current_url} AS url, count() AS events FROM {table} "
        "WHERE event = '$pageview' GROUP BY url ORDER BY events DESC, url LIMIT 10",
    ),
    (
        "funnel of three steps",
        "SELECT level, count() FROM (SELECT distinct_id, windowFunnel(86400)("
        "toDateTime(timestamp), event = '$pageview' AND {$browser} = 'Chrome', "
        "event = 'added to cart', event = 'paid') AS level FROM {table} GROUP BY distinct_id) "
        "GROUP BY level ORDER BY level",
    ),
    (
        "retention by week",
        "SELECT dateDiff('week', first, week) AS weeks, uniq(user) FROM (SELECT distinct_id AS user, "
        "toMonday(timestamp) AS week, min(toMonday(timestamp)) OVER (PARTITION BY distinct_id) "
        "AS first FROM {table} WHERE {$is_identified} AND event = 'signed up') "
        "GROUP BY weeks ORDER BY weeks",
    ),
    (
        "percentiles of a number",
        "SELECT quantilesExact(0.5, 0.9, 0.99)({price}) FROM {table} WHERE event = 'paid'",
    ),
    (
        "breakdown by two properties",
        "SELECT {$browser} AS browser, {$os} AS os, count(), uniq(distinct_id) FROM {table} "
        "GROUP BY browser, os ORDER BY browser, os",
    ),
    (
        "sum by a property and month",
        "SELECT toStartOfMonth(timestamp) AS month, {plan} AS plan, round(sum({price})) FROM {table} "
        "WHERE event = 'paid' GROUP BY month, plan ORDER BY month, plan",
    ),
    (
        "share with a property",
        "SELECT event, round(countIf({$is_identified}) / count(), 3) FROM {table} "
        "GROUP BY event ORDER BY event",
    ),
    (
        "histogram of a number",
        "SELECT intDiv({$screen_width}, 200) * 200 AS width, count() FROM {table} "
        "WHERE {$os} IN ('iOS', 'Android') GROUP BY width ORDER BY width",
    ),
    (
        "events of few",
        "SELECT count(), uniq(distinct_id) FROM {table} WHERE {$browser} = 'Edge' "
        "AND {$os} = 'Linux' AND {price} > 990 AND {plan} = 'business'",
    ),
]


def text(query, table):
    """Query of a table."""
    statement = query.replace("{table}", f"columns.{table['name']}")
    for name, expression in table["access"].items():
        statement = statement.replace("{" + name + "}", expression)
    return statement
