/* How many connections, requests in flight and bytes one client address has over all threads: so
 * that a client alone cannot take what all share (--limit-per-address,
 * --limit-bytes-per-address).
 *
 * Life of a place: an address gets one with its first connection, and loses it with its last one.
 * Each connection holds a reference, through which its requests are counted. With a limit of bytes
 * the place has a holder of them (net/access/byte_holder.h), which bodies and answers refer to. An
 * IPv6 client owns at least the addresses that share its first 64 bits, so these are one address. A
 * client without an address, of a Unix socket, has no place and no limit.
 *
 * The table is locked for a few instructions when a connection begins or ends, never for a
 * request. Any thread. Implemented in address_limits.c. */
#ifndef TT_NET_ACCESS_ADDRESS_LIMITS_H
#define TT_NET_ACCESS_ADDRESS_LIMITS_H

#include "base/err.h"
#include "net/access/byte_holder.h"
#include "net/access/peer_address.h"

struct tt_address_limits;
struct tt_address_place;

/* `limit`: connections per address, and requests in flight per address; `bytes_limit`: of bodies
 * in receipt and answers on their way. 0: none; one of them is not. NULL: no memory. */
struct tt_address_limits *tt_address_limits_new(int64_t limit, int64_t bytes_limit);
/* Every place was left. NULL-safe. */
void tt_address_limits_free(struct tt_address_limits *take_self);

/* A connection begins. False: `why` has the sentence for the client; nothing is taken. Else
 * `*out_place` is for _leave; NULL: the client has no address. */
TT_MUST_CHECK bool tt_address_limits_enter(struct tt_address_limits *self,
                                           const struct tt_peer_address *peer,
                                           struct tt_address_place **out_place,
                                           struct tt_error *why);
/* The connection has ended, and so have its requests. `place` may be NULL. */
void tt_address_limits_leave(struct tt_address_limits *self, struct tt_address_place *place);

/* A request begins; _end it. False: `why` has the sentence. `place` may be NULL. */
TT_MUST_CHECK bool tt_address_limits_begin(const struct tt_address_limits *self,
                                           struct tt_address_place *place, struct tt_error *why);
void tt_address_limits_end(struct tt_address_place *place);
/* What the address's bytes count for; borrowed. NULL: no limit. `place` may be NULL. */
struct tt_byte_holder *tt_address_place_holder(const struct tt_address_place *place);

/* Addresses with a connection now. */
int32_t tt_address_limits_count(struct tt_address_limits *self);
/* Asserts the invariants. */
void tt_address_limits_check(struct tt_address_limits *self);

#endif
