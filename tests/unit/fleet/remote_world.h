/* A frontend and a backend of one process, whose memory is reached through UCX or its stand-in; the
 * link between them is two queues of frames. All functions are inline; there is no .c file. */
#ifndef TT_TESTS_REMOTE_WORLD_H
#define TT_TESTS_REMOTE_WORLD_H

#include "base/log/log.h"
#include "base/prng.h"
#include "fleet/node_memory.h"
#include "fleet/remote_memory.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { FRONTEND, BACKEND, SIDES };
enum { REQUESTS = 64, TURNS = 600000, TURN_US = 100, MOST = 4096 };

struct message {
    struct message *next;
    enum tt_frame_type type;
    struct tt_frame_record records[64];
    int32_t count;
    size_t bytes;
    uint8_t payload[];
};

struct side {
    struct remote_world *world;
    struct tt_node_memory memory;
    struct message *sent; /* to the other one; the oldest first */
};

struct remote_world {
    uv_loop_t loop;
    struct tt_cluster_place places[SIDES];
    struct tt_cluster_file file;
    struct side sides[SIDES];
    bool is_linked, knows_remote;
    struct tt_log log;
    int log_ends[2];
    /* What was fetched last. */
    int32_t fetched;
    uint64_t fetched_id;
    uint16_t fetched_attempt;
    bool has_payload;
    uint8_t payload[MOST];
    size_t payload_bytes;
    /* Results that the frontend got. */
    int32_t results, by_memory;
    uint64_t last_result;
    /* For each message that arrives. NULL: as it is. */
    void (*spoil)(struct message *message);
};

static const uint8_t the_session[TT_HANDSHAKE_PROOF_BYTES] = {9, 8, 7};

static inline const uint8_t *on_session(void *context, uint16_t peer) {
    const struct side *self = context;
    (void)peer;
    return self->world->is_linked ? the_session : NULL;
}

static inline uint16_t on_abilities(void *context, uint16_t peer) {
    const struct side *self = context;
    (void)peer;
    return self->world->knows_remote ? TT_ABILITY_REMOTE : 0;
}

static inline uint8_t *on_send(void *context, uint16_t peer, const struct tt_frame *frame,
                               size_t payload_bytes) {
    (void)peer;
    struct side *self = context;
    if (!self->world->is_linked)
        return NULL;
    struct message *message = calloc(1, sizeof(*message) + payload_bytes);
    assert_true(message && frame->count <= 64);
    message->type = frame->type;
    message->count = frame->count;
    memcpy(message->records, frame->records, (size_t)frame->count * sizeof(*frame->records));
    message->bytes = payload_bytes;
    struct message **end = &self->sent;
    while (*end)
        end = &(*end)->next;
    *end = message;
    return message->payload;
}

static inline void on_fetched(void *context, uint16_t peer, uint64_t id, uint16_t attempt,
                              const uint8_t *payload, size_t bytes) {
    struct remote_world *world = ((struct side *)context)->world;
    assert_int_equal(peer, FRONTEND);
    world->fetched++;
    world->fetched_id = id;
    world->fetched_attempt = attempt;
    world->has_payload = payload != NULL;
    world->payload_bytes = payload ? bytes : 0;
    assert_true(world->payload_bytes <= MOST);
    if (payload)
        memcpy(world->payload, payload, bytes);
}

/* Bytes that follow from an id. */
static inline void fill(uint8_t *bytes, size_t count, uint64_t id) {
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(id * 31 + i);
}

static inline bool is_filled(const uint8_t *bytes, size_t count, uint64_t id) {
    bool is = true;
    for (size_t i = 0; i < count; i++)
        is &= bytes[i] == (uint8_t)(id * 31 + i);
    return is;
}

/* A result arrives once, whole, in the order in which it was sent. */
static inline void take_result(struct remote_world *world, const struct tt_frame_record *record,
                               const uint8_t *payload) {
    struct tt_node_memory *memory = &world->sides[FRONTEND].memory;
    bool is_shared = record->duration_ns > 0;
    if (is_shared)
        payload = tt_node_memory_result(memory, BACKEND, record);
    assert_non_null(payload);
    assert_true(is_filled(payload, record->length, record->id));
    if (is_shared)
        tt_node_memory_taken(memory, BACKEND);
    assert_int_equal(record->id, world->last_result + 1);
    world->last_result = record->id;
    world->results++;
    world->by_memory += is_shared;
}

static inline void deliver(struct remote_world *world, int32_t from) {
    struct side *sender = &world->sides[from], *receiver = &world->sides[1 - from];
    for (struct message *message; (message = sender->sent);) {
        sender->sent = message->next;
        if (world->spoil)
            world->spoil(message);
        const uint8_t *payload = message->payload;
        if (message->type == TT_FRAME_REMOTE)
            tt_node_memory_receive(&receiver->memory, (uint16_t)from, payload, message->bytes);
        for (int32_t i = 0; message->type == TT_FRAME_RESULT && i < message->count; i++) {
            take_result(world, &message->records[i], payload);
            payload += tt_frame_record_payload(message->type, &message->records[i]);
        }
        free(message);
    }
}

static inline void check_world(const struct remote_world *world) {
    for (int32_t i = 0; i < SIDES; i++)
        if (world->sides[i].memory.remote)
            tt_remote_memory_check(world->sides[i].memory.remote);
    tt_input_board_check(&world->sides[FRONTEND].memory.agreement.board);
}

static inline void turn_world(struct remote_world *world) {
    uv_run(&world->loop, UV_RUN_NOWAIT);
    for (int32_t i = 0; i < SIDES; i++) {
        bool rests = tt_node_memory_rest(&world->sides[i].memory);
        (void)rests;
    }
    deliver(world, FRONTEND);
    deliver(world, BACKEND);
    check_world(world);
}

static inline bool are_shared(const struct remote_world *world) {
    return world->sides[FRONTEND].memory.agreement.peers[BACKEND].is_shared &&
           world->sides[BACKEND].memory.agreement.peers[FRONTEND].is_shared;
}

/* Waits for a condition, a minute at most. */
#define AWAIT(world, condition)                                                                    \
    do {                                                                                           \
        bool is_met_ = (condition);                                                                \
        for (int32_t turns_ = 0; turns_ < TURNS && !is_met_; turns_++) {                           \
            turn_world(world);                                                                     \
            is_met_ = (condition);                                                                 \
            if (!is_met_ && turns_ > 100)                                                          \
                usleep(TURN_US);                                                                   \
        }                                                                                          \
        assert_true(is_met_);                                                                      \
    } while (0)

static inline void link_world(struct remote_world *world, bool is_up) {
    world->is_linked = is_up;
    for (int32_t i = 0; i < SIDES; i++) {
        struct side *side = &world->sides[i];
        for (struct message *message; !is_up && (message = side->sent);) {
            side->sent = message->next;
            free(message);
        }
        tt_node_memory_link(&side->memory, (uint16_t)(1 - i), is_up);
    }
}

static inline void open_world(struct remote_world *world, const struct tt_ucx_library *library,
                              bool accepts_emulated) {
    *world = (struct remote_world){.knows_remote = true};
    assert_int_equal(uv_loop_init(&world->loop), 0);
    assert_int_equal(pipe2(world->log_ends, O_NONBLOCK | O_CLOEXEC), 0);
    tt_log_init(&world->log, world->log_ends[1], false);
    snprintf(world->places[FRONTEND].name, TT_CLUSTER_NAME_BYTES, "f1");
    snprintf(world->places[BACKEND].name, TT_CLUSTER_NAME_BYTES, "b1");
    world->places[FRONTEND].role = TT_ROLE_FRONTEND;
    world->places[BACKEND].role = TT_ROLE_BACKEND;
    world->file = (struct tt_cluster_file){.places = world->places, .count = SIDES};
    for (int32_t i = 0; i < SIDES; i++) {
        struct side *side = &world->sides[i];
        side->world = world;
        const struct tt_node_memory_options options = {.file = &world->file,
                                                       .number = (uint16_t)i,
                                                       .use = TT_MEMORY_REQUIRED,
                                                       .request_limit = REQUESTS,
                                                       .log = &world->log,
                                                       .session = on_session,
                                                       .ucx = library,
                                                       .accepts_emulated = accepts_emulated,
                                                       .abilities = on_abilities,
                                                       .send = on_send,
                                                       .fetched = on_fetched,
                                                       .context = side};
        struct tt_error why;
        assert_int_equal(tt_node_memory_open(&side->memory, &world->loop, &options, &why), TT_OK);
    }
}

static inline void close_world(struct remote_world *world) {
    for (int32_t i = 0; i < SIDES; i++)
        for (struct message *message; (message = world->sides[i].sent);) {
            world->sides[i].sent = message->next;
            free(message);
        }
    tt_node_memory_close(&world->sides[BACKEND].memory);
    tt_node_memory_close(&world->sides[FRONTEND].memory);
    while (uv_run(&world->loop, UV_RUN_DEFAULT) != 0)
        continue;
    assert_int_equal(uv_loop_close(&world->loop), 0);
    tt_node_memory_fini(&world->sides[BACKEND].memory);
    tt_node_memory_fini(&world->sides[FRONTEND].memory);
    close(world->log_ends[0]);
    close(world->log_ends[1]);
}

/* The log says this. */
static inline void assert_said(struct remote_world *world, const char *wanted) {
    char said[8192];
    ssize_t got = read(world->log_ends[0], said, sizeof(said) - 1);
    said[got > 0 ? got : 0] = '\0';
    if (!strstr(said, wanted))
        print_message("the log has no '%s':\n%s", wanted, said);
    assert_non_null(strstr(said, wanted));
}

/* ---- what the sides do ---- */

static inline bool publish(struct remote_world *world, uint64_t id, size_t bytes) {
    struct tt_node_memory *memory = &world->sides[FRONTEND].memory;
    uint8_t *room = tt_node_memory_reserve(memory, id, bytes);
    if (!room)
        return false;
    fill(room, bytes, id);
    tt_node_memory_publish(memory, id, bytes);
    return true;
}

static inline bool push(struct remote_world *world, uint64_t id, size_t bytes) {
    struct side *backend = &world->sides[BACKEND];
    struct tt_frame_record record = {.id = id, .length = (uint32_t)bytes, .code = 1};
    uint8_t *room = tt_node_memory_stage(&backend->memory, FRONTEND, bytes);
    if (!room)
        return false;
    fill(room, bytes, id);
    tt_node_memory_push(&backend->memory, FRONTEND, 1, &record);
    return true;
}

#endif
