#include "net/access/peer_address.h"

#include "base/fnv.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

struct tt_peer_address tt_peer_address_of(int fd) {
    struct tt_peer_address peer = {.is_known = true};
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t count = sizeof(address);
    if (getpeername(fd, (struct sockaddr *)&address, &count) != 0)
        address.ss_family = AF_UNSPEC;
    if (address.ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address;
        memcpy(peer.bytes, &v6->sin6_addr, sizeof(peer.bytes));
    } else if (address.ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address;
        memcpy(peer.bytes, mapped, sizeof(mapped));
        memcpy(peer.bytes + sizeof(mapped), &v4->sin_addr, sizeof(v4->sin_addr));
    } else {
        peer.is_known = false;
    }
    return peer;
}

bool tt_peer_address_is_v4(const struct tt_peer_address *self) {
    return self->is_known && memcmp(self->bytes, mapped, sizeof(mapped)) == 0;
}

uint32_t tt_peer_address_lane(const struct tt_peer_address *self) {
    size_t count = tt_peer_address_is_v4(self) ? sizeof(self->bytes) : sizeof(self->bytes) / 2;
    uint64_t hash = tt_fnv_add(TT_FNV_START, self->bytes, count);
    return (uint32_t)(hash ^ hash >> 32);
}

void tt_peer_address_write(const struct tt_peer_address *self,
                           char out[TT_PEER_ADDRESS_TEXT_BYTES]) {
    bool is_v4 = tt_peer_address_is_v4(self);
    out[0] = '\0';
    if (self->is_known)
        inet_ntop(is_v4 ? AF_INET : AF_INET6, self->bytes + (is_v4 ? sizeof(mapped) : 0), out,
                  TT_PEER_ADDRESS_TEXT_BYTES);
}
