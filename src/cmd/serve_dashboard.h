/* The live page of `tutti serve`: a listener of its own on a thread of its own, so that nothing it
 * does delays a request of the other port.
 *
 * Life: _open() after the models are there, _close() before them. It answers what
 * net/http/dashboard_routes.h says, under the limits of the other port. */
#ifndef TT_CMD_SERVE_DASHBOARD_H
#define TT_CMD_SERVE_DASHBOARD_H

#include "net/http/listener.h"

struct tt_serve_dashboard;

enum { TT_SERVE_DASHBOARD_CONNECTIONS = 64 };

/* Whether the address can be listened on now. INVALID (no address that _open() takes; the message
 * says what it should be), IO. */
TT_MUST_CHECK enum tt_err tt_serve_dashboard_check(const char *address, struct tt_error *why);
/* `address`: [HOST:]PORT, loopback without HOST; PORT 0: any free port. `like`: version, log and
 * limits; `log` is borrowed until close. Logs where the page is. INVALID (address; the message says
 * what it should be), IO, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_serve_dashboard_open(const char *address, bool is_admin,
                                                  struct tt_serving *serving,
                                                  const struct tt_listener_options *like,
                                                  struct tt_serve_dashboard **out_dashboard,
                                                  struct tt_error *why);
/* Ends the thread; requests under way are cut off. NULL-safe. */
void tt_serve_dashboard_close(struct tt_serve_dashboard *take_self);

#endif
