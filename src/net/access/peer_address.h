/* The address of a client, without its port: for the access log, and for limits per address.
 *
 * An IPv4 address is its IPv4-mapped IPv6 address, so that a client is the same by either family.
 * The client of a Unix socket has no address. Implemented in peer_address.c. */
#ifndef TT_NET_ACCESS_PEER_ADDRESS_H
#define TT_NET_ACCESS_PEER_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

enum { TT_PEER_ADDRESS_TEXT_BYTES = 48 };

struct tt_peer_address {
    uint8_t bytes[16]; /* of an IPv6 address, in network order */
    bool is_known;
};

/* Of the other end of a connected socket; unknown if it has left, or is not of IPv4 or IPv6. */
struct tt_peer_address tt_peer_address_of(int fd);
bool tt_peer_address_is_v4(const struct tt_peer_address *self);
/* A number for the lanes of a loop (base/loop_turn.h): the same for equal addresses, and for those
 * of IPv6 with equal first 64 bits. */
uint32_t tt_peer_address_lane(const struct tt_peer_address *self);
/* As people write it; "" if it is unknown. */
void tt_peer_address_write(const struct tt_peer_address *self,
                           char out[TT_PEER_ADDRESS_TEXT_BYTES]);

#endif
