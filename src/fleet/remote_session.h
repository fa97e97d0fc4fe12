/* What the files of fleet/remote_memory.h share: a backend's session with a frontend, a frontend's
 * offer to a backend, and the fetches that are under way. No other file includes it. */
#ifndef TT_FLEET_REMOTE_SESSION_H
#define TT_FLEET_REMOTE_SESSION_H

#include "fleet/memory_agreement.h"
#include "fleet/remote_greeting.h"
#include "fleet/remote_memory.h"
#include "net/ucx/ucx_memory.h"

/* Registered memory is taken at once, so there is less of it than of shared memory. */
enum {
    TT_REMOTE_INPUT_BYTES = 64 << 20,   /* a frontend's payloads */
    TT_REMOTE_RESULT_BYTES = 16 << 20,  /* of each backend at each frontend */
    TT_REMOTE_LANDING_BYTES = 32 << 20, /* a backend's inputs that are being read */
    TT_REMOTE_FETCHES = 4096,
};

enum tt_remote_state {
    TT_REMOTE_CONNECTING, /* the first read: the lanes are being made */
    TT_REMOTE_ASKING,     /* the frontend is to hold still */
    TT_REMOTE_PROBING,    /* it does, and the second read is under way */
    TT_REMOTE_AGREED,
    TT_REMOTE_ENDING, /* operations of it may be under way */
};

/* A result on its way. */
struct tt_remote_result {
    struct tt_ucx_operation put;
    struct tt_remote_session *session;
    struct tt_frame_record record;
    uint64_t epoch;
    const uint8_t *bytes; /* in the staging region */
    bool is_put;
};

/* A backend's, with one frontend. */
struct tt_remote_session {
    struct tt_remote_memory *owner;
    struct tt_list_node node;
    uint16_t frontend;
    uint32_t serial;
    enum tt_remote_state state;
    uint64_t until_ms; /* of the state, before AGREED */
    bool is_one_sided;
    const char *failure; /* why it must end; NULL: it need not */
    struct tt_ucx_endpoint *endpoint;
    void *input_key, *result_key;
    int32_t entries;
    uint64_t input_at, input_bytes, result_at;
    struct tt_ucx_region staging;     /* an image of the ring of results */
    struct tt_result_writer writer;   /* on it */
    struct tt_ucx_operation look;     /* a read of the ring's head: while agreeing, and for room */
    struct tt_ucx_operation flush;    /* of results */
    struct tt_remote_result *results; /* [entries], a ring from `oldest` */
    int32_t oldest, count;
    uint64_t place;                        /* of the result that is staged */
    uint64_t sent, put, flushing, flushed; /* results ever: at the link, put, and so on */
    bool is_looking, is_flushing, wants_look;
};

/* Room for the results of one backend. Late writes of an earlier agreement may still arrive there,
 * so it rests before it is offered again, and is never freed before UCX has stopped. */
struct tt_remote_room {
    struct tt_ucx_region region; /* without bytes: not made yet */
    uint64_t rests_until_ms;
};
enum { TT_REMOTE_ROOMS = 2 };

/* A frontend's, to one backend. */
struct tt_remote_offer {
    bool is_linked, is_made, was_shared;
    uint32_t serial;
    uint64_t next_ms, wait_ms;                           /* when to offer again; 0: not */
    uint64_t held_until_ms;                              /* 0: progress is made */
    struct tt_remote_room rooms[TT_REMOTE_ROOMS], *room; /* the one that is offered */
};

enum tt_fetch_stage { TT_FETCH_ENTRY, TT_FETCH_PAYLOAD, TT_FETCH_AGAIN };

struct tt_remote_fetch {
    struct tt_ucx_operation get;
    struct tt_remote_session *session; /* NULL: free */
    uint64_t id;
    size_t begin, bytes; /* in the landing payloads */
    enum tt_fetch_stage stage;
    uint16_t attempt;
    int32_t extent, next_free;
};

struct tt_remote_memory {
    struct tt_memory_agreement *agreement;
    int64_t *read; /* inputs, counted for the owner */
    uv_loop_t *loop;
    uv_timer_t timer;
    uv_poll_t events;
    struct tt_ucx ucx;
    bool has_ucx, has_handles, is_closing;
    uint32_t serial;   /* of the latest offer */
    uint64_t rest_ms;  /* of a room */
    uint64_t retry_ms; /* from a failure to the next offer, at first */
    /* A frontend's. */
    struct tt_ucx_region inputs;
    struct tt_remote_offer *offers; /* [file->count] */
    /* A backend's. */
    struct tt_remote_session **sessions; /* [file->count]; NULL: none */
    struct tt_list all;                  /* sessions, also those that end */
    struct tt_ucx_region landing;        /* an entry per fetch, then payloads */
    struct tt_extent_ring ring;
    struct tt_remote_fetch *fetches; /* [TT_REMOTE_FETCHES] */
    int32_t first_free;
};

static inline const struct tt_node_memory_options *
tt_remote_options(const struct tt_remote_memory *self) {
    return &self->agreement->options;
}

static inline enum tt_cluster_role tt_remote_role(const struct tt_remote_memory *self) {
    return tt_remote_options(self)->file->places[tt_remote_options(self)->number].role;
}

/* ---- remote_agreement.c ---- */

/* Ends the session; TCP from now on. It is freed when its last operation is done. */
void tt_remote_session_end(struct tt_remote_session *self);
/* While it is held, this process answers no emulated access. */
void tt_remote_hold(struct tt_remote_memory *self, bool is_held);

void tt_remote_make_offer(struct tt_remote_memory *self, uint16_t backend);
/* The offer, or what became of it, is void. */
void tt_remote_withdraw_offer(struct tt_remote_memory *self, uint16_t backend);
/* An agreed session failed: the frontend learns why, and offers again. */
void tt_remote_fail(struct tt_remote_session *self, const char *reason);
/* What is due at `now_ms`. */
void tt_remote_agreement_tick(struct tt_remote_memory *self, uint64_t now_ms);

/* ---- remote_push.c ---- */

/* Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_remote_push_open(struct tt_remote_session *self, size_t bytes,
                                              struct tt_error *why);
/* No operation of the session is under way. */
void tt_remote_push_close(struct tt_remote_session *self);
/* Starts what the turn left. */
void tt_remote_push_turn(struct tt_remote_session *self);
/* What is on its way goes over TCP, if there is a link. */
void tt_remote_push_give_up(struct tt_remote_session *self);
/* Reads the ring's head; `done` is called by session->look. */
void tt_remote_look(struct tt_remote_session *self,
                    void (*done)(struct tt_ucx_operation *look, bool is_done));

/* ---- remote_fetch.c ---- */

TT_MUST_CHECK enum tt_err tt_remote_fetch_open(struct tt_remote_memory *self, struct tt_error *why);
void tt_remote_fetch_close(struct tt_remote_memory *self);

#endif
