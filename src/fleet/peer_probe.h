/* Whether a peer's process has ended, after its system reset the connection. That happens when a
 * process ends, and after a cut of the network during which the peer's system gave up. A dial
 * tells: it is refused where no process listens. A process that is ending may still take it, and
 * closes it with its listener; one that lives waits for the dialer's first words. So the dial says
 * nothing, and watches for a while.
 *
 * Life: _begin -> `done`, once, on the loop's thread, or _cancel and never. Then it frees itself.
 * Implemented in peer_probe.c. */
#ifndef TT_FLEET_PEER_PROBE_H
#define TT_FLEET_PEER_PROBE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct tt_peer_probe;

/* has_ended: false: the peer was not seen to end within the wait. */
typedef void tt_peer_probe_fn(void *context, uint16_t number, bool has_ended);

/* `address`: where the peer listens. wait_ms: less than a listener waits for a dialer's words.
 * NULL: it cannot be dialed, or out of memory. */
struct tt_peer_probe *tt_peer_probe_begin(uv_loop_t *loop, uint16_t number,
                                          const struct sockaddr_storage *address, uint64_t wait_ms,
                                          tt_peer_probe_fn *done, void *context);
/* NULL-safe. */
void tt_peer_probe_cancel(struct tt_peer_probe *take_self);

#endif
