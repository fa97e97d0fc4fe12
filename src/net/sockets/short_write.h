/* Short bytes that a connection writes beside its answers, such as a handshake. What the socket
 * does not take at once is copied, and written by the loop. Implemented in short_write.c. */
#ifndef TT_NET_SOCKETS_SHORT_WRITE_H
#define TT_NET_SOCKETS_SHORT_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

/* The bytes are borrowed during the call. False: no memory, or the stream is closed. */
bool tt_short_write(uv_stream_t *stream, const char *bytes, size_t count);

#endif
