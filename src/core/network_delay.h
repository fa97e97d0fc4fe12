/* How long messages to a device travel (S4): control_ns, plus data_ns per row of the batch.
 *
 * An estimate begins with a given delay. From then on both values follow the device's last 32
 * messages, none of which was under way with another one of them: messages that are under way
 * together meet the same stall, and one of them counts. data_ns is the slope between two medians:
 * of the messages with few rows and of those with many. It stays while fewer than four messages of
 * a size class differ in rows. control_ns is a high quantile of what remains, so that the sum
 * covers that share of the messages. The values move when the sum has left them by more than 5 %
 * and 10 us at the smallest or the largest batch. They are computed every 16 messages, at the
 * beginning every 4. One stall moves neither median nor a quantile of at most 96 %.
 *
 * Starvation. Where no batch seems to be in time, no message is sent, and nothing is learnt. So
 * after requests were dropped for a while without a message (core/mechanism.h), the given delay
 * counts again until the next four messages.
 *
 * Life: one per device (core/mechanism.h). A carrier states in a task when its message arrived;
 * where it states nothing, nothing is learnt. Pure; integers only; no allocation.
 *
 * Implemented in network_delay.c. */
#ifndef TT_CORE_NETWORK_DELAY_H
#define TT_CORE_NETWORK_DELAY_H

#include <stdbool.h>
#include <stdint.h>

enum { TT_NETWORK_DELAY_WINDOW = 32 };

struct tt_network_delay {
    int64_t control_ns, data_ns; /* data_ns: per row */
};

static inline int64_t tt_network_delay_of(struct tt_network_delay self, int32_t rows) {
    return self.control_ns + self.data_ns * rows;
}

struct tt_delay_estimate {
    struct tt_network_delay prior, believed;
    int64_t travel_ns[TT_NETWORK_DELAY_WINDOW]; /* cyclic, as `sent_at` and `rows` */
    int64_t sent_at[TT_NETWORK_DELAY_WINDOW];
    int32_t rows[TT_NETWORK_DELAY_WINDOW];
    int32_t count, next; /* messages in the window; where the next one goes */
    int32_t since;       /* messages since the values were computed */
    int32_t percent;     /* the quantile, 1 .. 100 */
    int32_t device;      /* whose messages they are; the mechanism sets it; -1: no one's yet */
};

void tt_delay_estimate_init(struct tt_delay_estimate *self, struct tt_network_delay prior,
                            int32_t percent);
/* A message with so many rows travelled that long. It does not count if one of the window was under
 * way with it. True: `believed` has moved. */
bool tt_delay_estimate_add(struct tt_delay_estimate *self, int64_t sent_at, int32_t rows,
                           int64_t travel_ns);
/* Forgets the messages. True: `believed` has moved. */
bool tt_delay_estimate_starved(struct tt_delay_estimate *self);
void tt_delay_estimate_check(const struct tt_delay_estimate *self);

#endif
