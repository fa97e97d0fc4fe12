/* Finds operations on asynchronous devices that conflict and that no event orders.
 *
 * Participants are the host and the streams, each with a vector clock. A stream's clock holds, per
 * stream, how many of its operations are known to come before. An operation advances its stream's
 * own entry. An event keeps a copy of its stream's clock; a stream that waits for it takes the
 * maximum of both, and so does the host when it has waited for an event. A submission comes after
 * all that the host knows. Two operations conflict if they touch a common byte, one of them writes,
 * and the later one's clock does not include the earlier one.
 *
 * Everything is computed when operations are submitted. So a conflict is found whatever the timing
 * of the run was, and also on devices that compute nothing. All host threads are one participant:
 * what one thread waited for counts for all.
 *
 * The checker keeps the accesses that a later operation may still conflict with, up to a limit;
 * then it forgets the oldest and counts it. It never changes what the device does. Functions lock
 * what they need; any thread. Implemented in async_order.c. */
#ifndef TT_DEVICE_ASYNC_ORDER_H
#define TT_DEVICE_ASYNC_ORDER_H

#include "device/async_device.h"

struct tt_async_order_options {
    int32_t max_streams;  /* of the device; at most TT_ASYNC_ORDER_STREAMS */
    int32_t max_accesses; /* that are kept; 0: 4096 */
    /* Receives a sentence that names both operations. */
    void (*on_conflict)(void *context, const char *text);
    void *context;
};

enum { TT_ASYNC_ORDER_STREAMS = 256 };

/* Errors: INVALID (too many streams), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_async_order_new(const struct tt_async_order_options *options,
                                             struct tt_async_order **out_order,
                                             struct tt_error *why);
void tt_async_order_free(struct tt_async_order *take_order);

/* The clock of an event, freed by free(); NULL: out of memory. */
uint64_t *tt_async_order_clock_new(const struct tt_async_order *self);
/* An operation of a stream. `name` has static storage. */
void tt_async_order_operation(struct tt_async_order *self, int32_t stream, const char *name,
                              const struct tt_async_range *ranges, int32_t count);
void tt_async_order_record(struct tt_async_order *self, int32_t stream, uint64_t *clock);
void tt_async_order_wait(struct tt_async_order *self, int32_t stream, const uint64_t *clock);
/* The host has seen the event happen. */
void tt_async_order_host_waited(struct tt_async_order *self, const uint64_t *clock);
void tt_async_order_host_access(struct tt_async_order *self, const char *name,
                                const struct tt_async_range *range);
/* The device has restarted: nothing is under way. */
void tt_async_order_clear(struct tt_async_order *self);
int64_t tt_async_order_conflicts(struct tt_async_order *self);
/* Accesses forgotten for lack of room. */
int64_t tt_async_order_forgotten(struct tt_async_order *self);

#endif
