/* Hooks of the suite for devices that carry out calls on a thread: a call that blocks hangs its
 * stream, until it is let go. */
#ifndef TUTTI_TESTS_UNIT_DEVICE_HANG_CALLS_H
#define TUTTI_TESTS_UNIT_DEVICE_HANG_CALLS_H

#include "unit/device/async_suite.h"

#include <semaphore.h>

enum { MAX_HUNG = 8 };

static struct hung_stream {
    struct tt_async_stream *stream; /* NULL: free */
    sem_t entered, gate;
} hung_streams[MAX_HUNG];

static void block(void *context) {
    struct hung_stream *self = context;
    sem_post(&self->entered);
    while (sem_wait(&self->gate) != 0)
        ;
}

static void suite_hang(struct tt_async_stream *stream) {
    struct hung_stream *self = hung_streams;
    while (self->stream)
        self++;
    struct tt_error why;
    self->stream = stream;
    sem_init(&self->entered, 0, 0);
    sem_init(&self->gate, 0, 0);
    ok(tt_async_call(stream, block, self, &why), &why);
    while (sem_wait(&self->entered) != 0)
        ;
}

static void suite_unhang(struct tt_async_stream *stream) {
    struct hung_stream *self = hung_streams;
    while (self->stream != stream)
        self++;
    self->stream = NULL;
    sem_post(&self->gate);
}

static const bool suite_hangs_for_good = false;

#endif
