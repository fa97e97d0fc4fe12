/* Counts of connections and requests of a listener: requests == answered + gone + in_flight between
 * any two events of the loop. */
#ifndef TT_NET_HTTP_HTTP_COUNTS_H
#define TT_NET_HTTP_HTTP_COUNTS_H

#include <stdint.h>

struct tt_listener_counts {
    int64_t accepted; /* connections */
    int64_t requests;
    int64_t answered, gone; /* gone: the client left before its answer */
    int32_t connections, in_flight;
};

#endif
