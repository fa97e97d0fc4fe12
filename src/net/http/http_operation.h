/* Which operation (net/access/access_role.h) each route of HTTP is. Every route that http_routes.c
 * answers has one here; a unit test compares both. Pure. Implemented in http_operation.c. */
#ifndef TT_NET_HTTP_HTTP_OPERATION_H
#define TT_NET_HTTP_HTTP_OPERATION_H

#include "net/access/access_role.h"
#include "net/http/http_path.h"

/* UNKNOWN: no such route, or not with this method. `is_dashboard`: on the live page's port. */
enum tt_operation tt_http_operation(const struct tt_http_path *path, const char *method,
                                    bool is_dashboard);

#endif
