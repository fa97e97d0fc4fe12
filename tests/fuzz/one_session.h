/* One HTTP/2 connection in memory, for fuzzers of what its streams mean: bytes cut as the first one
 * says, with the client's preface and SETTINGS before them unless the first byte is 0, so that
 * frames are reached. All functions are inline; there is no .c file. */
#ifndef TT_TESTS_FUZZ_ONE_SESSION_H
#define TT_TESTS_FUZZ_ONE_SESSION_H

#include "unit/net/fake_serving.h"

#include "net/http2/http2_session.h"

static inline void one_session_touch(struct tt_http2_session *session) { (void)session; }
static inline void one_session_no_wake(void *context) { (void)context; }

static inline bool one_session_feed(struct tt_http2_session *session, struct tt_port *port,
                                    const void *bytes, size_t count) {
    static struct tt_http2_output output;
    char *copy = malloc(count ? count : 1); /* so that a read behind the end is seen */
    memcpy(copy, bytes, count);
    size_t used;
    enum tt_err err = tt_http2_session_receive(session, copy, count, &used);
    free(copy);
    tt_port_drain(port);
    for (bool is_more = true; is_more;) {
        tt_http2_output_clear(&output);
        is_more = tt_http2_session_pull(session, &output);
        tt_http2_session_written(session);
    }
    return !err;
}

/* The whole life of a connection; all its streams are closed at the end. `tick` is called when the
 * bytes are used up; NULL: nothing is. */
static inline void one_session_play(const struct tt_http2_handler *handler, void *context,
                                    void (*tick)(void *context), struct tt_port *port,
                                    const uint8_t *data, size_t size) {
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    static const struct tt_http2_limits limits = {100, 100, 16384};
    struct tt_http2_timers timers;
    struct tt_http2_session session;
    tt_http2_timers_init(&timers, 1000, 1000, 1000);
    enum tt_err err = tt_http2_session_init(&session, handler, &limits, &timers, NULL, context);
    tt_assert(err == TT_OK);
    bool goes_on = !data[0] || one_session_feed(&session, port, preface, sizeof(preface) - 1);
    size_t step = 1 + (size_t)data[0] * 4;
    for (size_t at = 1; at < size && goes_on; at += step)
        goes_on = one_session_feed(&session, port, data + at, size - at < step ? size - at : step);
    if (tick)
        tick(context);
    timers.now_ms += 1000;
    tt_http2_timers_expire(&timers, one_session_touch);
    tt_http2_session_fini(&session);
    tt_port_drain(port);
}

#endif
