/* Counts of connections and requests of a listener: requests == answered + gone + in_flight, and
 * answered == the sum of by_status, between any two events of the loop. Types only. */
#ifndef TT_NET_HTTP_HTTP_COUNTS_H
#define TT_NET_HTTP_HTTP_COUNTS_H

#include <stdint.h>

enum { TT_HTTP_STATUS_FIRST = 200, TT_HTTP_STATUS_END = 512 };

struct tt_listener_counts {
    int64_t accepted; /* connections */
    int64_t requests;
    int64_t answered, gone; /* gone: the client left before its answer */
    int64_t by_status[TT_HTTP_STATUS_END - TT_HTTP_STATUS_FIRST]; /* `answered`, by its status */
    int32_t connections, in_flight;
};

#endif
