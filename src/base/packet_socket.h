/* Unix sockets of packets by which processes of one host find each other and pass descriptors.
 *
 * Names are of the abstract kind: they are no files, end with their process, and belong to one
 * network namespace. Any process of the host may connect to one, or take one; so both sides look at
 * the other's user. All sockets that are made here are non-blocking.
 *
 * Implemented in packet_socket.c. */
#ifndef TT_BASE_PACKET_SOCKET_H
#define TT_BASE_PACKET_SOCKET_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { TT_PACKET_DESCRIPTORS = 2 };

/* Errors: IO (the name is taken, among others). */
TT_MUST_CHECK enum tt_err tt_packet_listen(const char *name, int *out_fd, struct tt_error *why);
/* UNAVAILABLE: no process listens; BUSY: later; INVALID: another user listens; IO. */
TT_MUST_CHECK enum tt_err tt_packet_connect(const char *name, int *out_fd, struct tt_error *why);
/* BUSY: no process waits; INVALID: another user connected; IO. */
TT_MUST_CHECK enum tt_err tt_packet_accept(int listener, int *out_fd, struct tt_error *why);
/* One packet with `fd_count` descriptors, which stay the caller's. On any socket of packets; a
 * blocking one waits for room. BUSY: later; IO. */
TT_MUST_CHECK enum tt_err tt_packet_send(int fd, const uint8_t *bytes, size_t count, const int *fds,
                                         int32_t fd_count, struct tt_error *why);
/* A packet and its descriptors, which become the caller's: -1 where there is none. BUSY: none came
 * yet; UNAVAILABLE: the peer closed; INVALID: it has more descriptors or bytes. */
TT_MUST_CHECK enum tt_err tt_packet_receive(int fd, uint8_t *out_bytes, size_t capacity,
                                            size_t *out_count, int out_fds[TT_PACKET_DESCRIPTORS],
                                            struct tt_error *why);

#endif
