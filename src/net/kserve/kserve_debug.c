/* What just happened, for people who look into it: GET /v2/debug/trace?seconds=N. */
#include "net/kserve/kserve_pages.h"

#include "base/instant.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_SECONDS = 5, MAX_SECONDS = 3600 };

/* The value of ?seconds=, 1 .. MOST_SECONDS; -1: something else stands there. */
static int64_t seconds_of(const char *target) {
    static const char name[] = "seconds=";
    const char *query = strchr(target, '?');
    if (!query || !query[1])
        return DEFAULT_SECONDS;
    query++;
    if (strncmp(query, name, sizeof(name) - 1) != 0)
        return -1;
    query += sizeof(name) - 1;
    char *end;
    long seconds = strtol(query, &end, 10);
    bool good = *query >= '0' && *query <= '9' && !*end && seconds >= 1 && seconds <= MAX_SECONDS;
    return good ? seconds : -1;
}

void tt_page_debug_trace(const struct tt_route_world *world, const char *target,
                         struct tt_reply *reply) {
    int64_t seconds = seconds_of(target);
    if (seconds < 0) {
        tt_reply_fail(reply, 400,
                      "the query may be ?seconds=N, with N from 1 to 3600: how far back the trace "
                      "begins");
        return;
    }
    struct tt_error why;
    enum tt_err err = tt_serving_trace(world->serving, seconds * TT_S, tt_reply_json(reply), &why);
    if (err)
        tt_reply_error(reply, err, why.text);
}
