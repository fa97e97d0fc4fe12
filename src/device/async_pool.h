/* A pool of device memory whose blocks are taken and given back in the order of streams.
 *
 * A pool reserves its bytes once. A block that a stream takes may be used by operations submitted
 * to that stream afterwards. Giving it back marks the place in a stream after which it is free:
 * the host need not wait. Reuse is safe in three ways, tried in this order:
 * 1. memory that is free since its event has happened;
 * 2. a block that the same stream gave back: the stream's own order is enough;
 * 3. a block that another stream gave back: the taking stream waits for its event on the device.
 * A block of the second or third kind is reused whole, however small the request.
 *
 * One thread at a time uses a pool. No call of the driver but records, queries and waits; nothing
 * is allocated after _open. Implemented in async_pool.c. */
#ifndef TT_DEVICE_ASYNC_POOL_H
#define TT_DEVICE_ASYNC_POOL_H

#include "device/async_device.h"

struct tt_async_pool;

/* `bytes` of device memory in at most `max_blocks` pieces, free ones included. Errors: NO_MEMORY,
 * UNAVAILABLE. */
TT_MUST_CHECK enum tt_err tt_async_pool_open(struct tt_async_device *device, size_t bytes,
                                             int32_t max_blocks, struct tt_async_pool **out_pool,
                                             struct tt_error *why);
/* NULL-safe. No operation that uses its blocks is under way, unless the device has failed. */
void tt_async_pool_close(struct tt_async_pool *take_pool);
/* A block of at least `bytes` > 0, aligned to 256. Errors: BUSY (blocks that are being given back
 * would do, later), NO_MEMORY (they would not), UNAVAILABLE. */
TT_MUST_CHECK enum tt_err tt_async_pool_take(struct tt_async_pool *self,
                                             struct tt_async_stream *stream, size_t bytes,
                                             uint64_t *out_address, struct tt_error *why);
/* The block is free after what was submitted to `stream` so far, which comes after all uses of the
 * block. Errors: those of a record; the block is then still taken. */
TT_MUST_CHECK enum tt_err tt_async_pool_give(struct tt_async_pool *self,
                                             struct tt_async_stream *stream, uint64_t address,
                                             struct tt_error *why);
/* Bytes that are taken, or given back by an event that has not been seen to happen. */
size_t tt_async_pool_used(const struct tt_async_pool *self);
/* Asserts that the blocks cover the pool without gaps, and that free neighbours are joined. */
void tt_async_pool_check(const struct tt_async_pool *self);

#endif
