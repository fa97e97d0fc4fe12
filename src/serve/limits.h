/* Every limit of the server: how much a client can make it hold, and for how long.
 *
 * Each limit has a flag of `tutti serve`, a default and a range; `tutti serve --show-limits` prints
 * them. A request over a limit is rejected at once with a message that names the limit. Every
 * resource that clients can make grow has a limit here. Implemented in limits.c. */
#ifndef TT_SERVE_LIMITS_H
#define TT_SERVE_LIMITS_H

#include "base/threads/largest.h"
#include "base/threads/quota.h"

#include <stddef.h>
#include <stdint.h>

enum { TT_PORT_IN_FLIGHT_LIMIT = 16384 }; /* the default of `requests` */

struct tt_limits {
    int64_t connections;
    int64_t per_address;       /* connections, and gRPC calls, of one client address; 0: no limit */
    int64_t bytes_per_address; /* bodies in receipt and answers on their way, of one; 0: no limit */
    int64_t streams;           /* of one HTTP/2 connection */
    int64_t
        header_bytes; /* request line and headers; chunk extensions and trailers as much again */
    int64_t header_count;
    int64_t body_bytes;
    int64_t management_bytes; /* of a body that is neither inference nor load, unpacked too */
    int64_t unpacked_bytes;   /* of one compressed body */
    int64_t receive_bytes;    /* all bodies that are being received, together */
    int64_t send_bytes;       /* all answers that clients do not take, together */
    int64_t pipeline_bytes;   /* read ahead while a request is in flight, per connection */
    int64_t json_depth;
    int64_t requests;       /* in flight, in all; and in each scheduling domain */
    int64_t model_requests; /* in flight, per model version */
    int64_t stream_words;   /* emitted and not read by the client of a stream, per request */
    int64_t queue_bytes;    /* of all inputs of requests in flight, together */
    int64_t run_here_us;    /* shorter runs need no executor's thread; 0: every run does */
    int64_t lateness_us;    /* struct tt_policy_setup: how late a decision may be */
    int64_t control_delay_us, data_delay_us; /* struct tt_policy_setup: of messages to executors */
    int64_t learn_percent; /* struct tt_mechanism_options; 0: policies believe profiles */
    int64_t max_run_ms;    /* of a batch, where the model does not say it; 0: from its profile */
    int64_t model_bytes;   /* of a model version, as estimated; see tt_limits_fit */
    int64_t models_bytes;  /* of all model versions together, as estimated; see tt_limits_fit */
    int64_t load_ms;       /* of a trial load */
    int64_t idle_timeout_ms, header_timeout_ms, body_timeout_ms, write_timeout_ms;
};

/* The limits of what all connections of the server hold together, on whatever threads they are. */
struct tt_network_quotas {
    struct tt_quota connections, receive_bytes, send_bytes;
    struct tt_largest bodies;  /* which thread holds the largest body in receipt */
    struct tt_largest answers; /* which one holds the most answers that clients do not take */
};
/* Connections of those allowed that are kept for health and metrics: 1 of 64, at
 * least 1 and at most 64; of fewer than 8 connections none. */
int64_t tt_network_reserve(int64_t connections);
void tt_network_quotas_init(struct tt_network_quotas *self, const struct tt_limits *of);

struct tt_limit {
    const char *name; /* of the flag, without the dashes */
    const char *unit;
    const char *help;
    size_t offset; /* of the int64_t in struct tt_limits */
    int64_t default_value, lowest, highest;
};

int32_t tt_limit_count(void);
const struct tt_limit *tt_limit_at(int32_t index);
static inline int64_t *tt_limit_of(struct tt_limits *limits, const struct tt_limit *limit) {
    return (int64_t *)((char *)limits + limit->offset);
}
void tt_limits_default(struct tt_limits *out_limits);
/* Fits limits to a process that may use `usable_bytes` of memory: those of models that are 0 become
 * three quarters of it; those of bodies, answers and inputs that have their default value become at
 * most an eighth each. */
void tt_limits_fit(struct tt_limits *limits, int64_t usable_bytes);

#endif
