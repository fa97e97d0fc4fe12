/* The address of a node whose place names its host, looked up on libuv's threads, so that DNS never
 * holds up the loop. Platforms that start containers give a node another address each time it
 * starts: the links look it up before each dial.
 *
 * Life: _begin -> `done`, once, on the loop's thread, or _cancel and never. Then it frees itself.
 * Implemented in node_lookup.c. */
#ifndef TT_FLEET_NODE_LOOKUP_H
#define TT_FLEET_NODE_LOOKUP_H

#include "fleet/cluster_file.h"

#include <uv.h>

struct tt_node_lookup;

/* `address` has the place's port; NULL: there is none, for `reason`. Both are borrowed. */
typedef void tt_node_lookup_fn(void *context, uint16_t number, const struct sockaddr *address,
                               size_t address_bytes, const char *reason);

/* Of the family of `like`, since datagrams go from a socket of that family. NULL: out of memory. */
struct tt_node_lookup *tt_node_lookup_begin(uv_loop_t *loop, const struct tt_cluster_place *place,
                                            uint16_t number, const struct sockaddr_storage *like,
                                            tt_node_lookup_fn *done, void *context);
/* It is freed when the loop has let go of it, which may take as long as DNS. NULL-safe. */
void tt_node_lookup_cancel(struct tt_node_lookup *take_self);

#endif
