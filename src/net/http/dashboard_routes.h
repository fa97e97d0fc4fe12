/* The port of the live page (`tutti serve --dashboard`): what it answers, and which requests it
 * rejects.
 *
 * It answers the page's own paths (/, /dashboard.css, /dashboard.js, /state) and those of the other
 * port. Without `is_admin` it changes nothing: models can be tried, but not loaded or unloaded, and
 * no setting can be changed.
 *
 * A browser on the same machine reaches a loopback port on behalf of any web site. So each request
 * must name a host that no such site can take (an address, localhost, this machine, or the name
 * given), and a request with an Origin must come from the page itself. Implemented in
 * dashboard_routes.c. */
#ifndef TT_NET_HTTP_DASHBOARD_ROUTES_H
#define TT_NET_HTTP_DASHBOARD_ROUTES_H

#include "net/http/http_routes.h"

struct tt_dashboard_access {
    const char *host; /* a name that the page may be reached by, besides the others */
    bool is_admin;
};

/* True if the reply is filled: the request is rejected, or it was for the page's own paths. */
bool tt_dashboard_route(const struct tt_http_context *context,
                        const struct tt_http_request *request, struct tt_reply *reply);
/* False on the port of a page that only shows. */
static inline bool tt_dashboard_may_change(const struct tt_http_context *context) {
    return !context->dashboard || context->dashboard->is_admin;
}
void tt_dashboard_refuse_change(struct tt_reply *reply);

#endif
