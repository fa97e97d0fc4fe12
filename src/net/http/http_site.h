/* Which site a browser sends a request for. A browser on the same machine reaches a loopback port
 * on behalf of any web site, so what such a site must not do is refused by these. Implemented in
 * http_site.c. */
#ifndef TT_NET_HTTP_HTTP_SITE_H
#define TT_NET_HTTP_HTTP_SITE_H

#include "net/http/http_routes.h"

/* The value of Host is an address, localhost, a name of this machine, or `own` (NULL: none). A name
 * that a foreign site could point to this machine is none of these (DNS rebinding). */
bool tt_http_is_own_host(const char *host, const char *own);
/* There is no Origin, or it is the host that the request is for. */
bool tt_http_is_own_origin(const struct tt_http_request *request);

#endif
