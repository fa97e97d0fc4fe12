#include "fleet/frame_sender.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

enum { GROUP_BYTES = 1 << 18 };

void tt_frame_sender_fini(struct tt_frame_sender *self) {
    free(self->group);
    free(self->rooms);
    *self = (struct tt_frame_sender){.group = NULL};
}

static bool is_datagram(enum tt_frame_type type) {
    return type == TT_FRAME_BEAT || type == TT_FRAME_ASK || type == TT_FRAME_OPINION;
}

/* The payload's room in memory that the receiver shares; NULL: it follows the frame. */
static uint8_t *room_for(struct tt_frame_sender *self, uint16_t to, enum tt_frame_type type,
                         struct tt_frame_record *record, size_t bytes) {
    return type == TT_FRAME_RESULT
               ? tt_node_memory_room(self->memory, to, bytes, &record->duration_ns)
               : NULL;
}

/* Records with payloads, as many as make a frame of a reasonable size. Returns how many. */
static int32_t send_group(struct tt_frame_sender *self, void *role_self, uint16_t to,
                          const struct tt_frame *frame, int32_t first) {
    size_t bytes = 0;
    int32_t count = 0;
    while (first + count < frame->count && bytes < GROUP_BYTES) {
        struct tt_frame_record *record = &self->group[count];
        *record = frame->records[first + count];
        size_t payload = self->role->payload_bytes(role_self, frame->type, record);
        tt_assert(payload <= UINT32_MAX);
        record->length = (uint32_t)payload;
        self->rooms[count] = room_for(self, to, frame->type, record, payload);
        bytes += tt_frame_record_payload(frame->type, record);
        count++;
    }
    const struct tt_frame group = {
        .type = frame->type, .epoch = frame->epoch, .count = count, .records = self->group};
    uint8_t *out = tt_node_links_send(self->links, to, &group, bytes);
    bool is_sent = out != NULL; /* else the link may have ended, and the rooms with it */
    for (int32_t i = 0; i < count; i++) {
        uint8_t *room = self->rooms[i] ? self->rooms[i] : out;
        self->role->payload_write(role_self, frame->type, &self->group[i], is_sent ? room : NULL);
        out = is_sent ? out + tt_frame_record_payload(frame->type, &self->group[i]) : NULL;
    }
    return count;
}

/* A result that goes into memory through UCX: its record follows when it is there. What finds no
 * room there goes at once. */
static void send_result(struct tt_frame_sender *self, void *role_self, uint16_t to,
                        const struct tt_frame *frame, int32_t index) {
    struct tt_frame_record record = frame->records[index];
    size_t bytes = self->role->payload_bytes(role_self, frame->type, &record);
    tt_assert(bytes <= UINT32_MAX);
    record.length = (uint32_t)bytes;
    uint8_t *room = tt_node_memory_stage(self->memory, to, bytes);
    const struct tt_frame one = {
        .type = frame->type, .epoch = frame->epoch, .count = 1, .records = &record};
    uint8_t *out = room ? room : tt_node_links_send(self->links, to, &one, bytes);
    self->role->payload_write(role_self, frame->type, &record, out);
    if (room)
        tt_node_memory_push(self->memory, to, frame->epoch, &record);
}

static void reserve_group(struct tt_frame_sender *self, int32_t count) {
    bool reserved = TT_ARRAY_RESERVE(self->group, &self->group_capacity, count) &&
                    TT_ARRAY_RESERVE(self->rooms, &self->room_capacity, count);
    tt_assert(reserved);
}

static void send_texts(struct tt_frame_sender *self, void *role_self, uint16_t to,
                       const struct tt_frame *frame) {
    size_t bytes = 0;
    reserve_group(self, frame->count);
    for (int32_t i = 0; i < frame->count; i++) {
        self->group[i] = frame->records[i];
        self->group[i].length =
            (uint32_t)strlen(self->role->text(role_self, frame->type, &frame->records[i]));
        bytes += self->group[i].length;
    }
    const struct tt_frame group = {
        .type = frame->type, .epoch = frame->epoch, .count = frame->count, .records = self->group};
    uint8_t *out = tt_node_links_send(self->links, to, &group, bytes);
    for (int32_t i = 0; out && i < frame->count; i++) {
        const char *text = self->role->text(role_self, frame->type, &frame->records[i]);
        memcpy(out, text, self->group[i].length);
        out += self->group[i].length;
    }
}

static void send_frame(struct tt_frame_sender *self, void *role_self, uint16_t to,
                       const struct tt_frame *frame) {
    if (is_datagram(frame->type)) {
        tt_node_links_send_datagram(self->links, to, frame);
    } else if (!tt_frame_has_payload(frame->type)) {
        tt_node_links_send(self->links, to, frame, 0);
    } else if (frame->type == TT_FRAME_WISH || frame->type == TT_FRAME_SERVED ||
               frame->type == TT_FRAME_WISHED) {
        send_texts(self, role_self, to, frame);
    } else if (frame->type == TT_FRAME_RESULT && tt_node_memory_is_remote(self->memory, to)) {
        for (int32_t i = 0; i < frame->count; i++)
            send_result(self, role_self, to, frame, i);
    } else {
        reserve_group(self, frame->count);
        for (int32_t i = 0; i < frame->count;)
            i += send_group(self, role_self, to, frame, i);
    }
}

void tt_frame_sender_send(struct tt_frame_sender *self, void *role_self) {
    struct tt_outbox *outbox = self->role->outbox(role_self);
    for (int64_t i = 0; i < outbox->frame_count; i++) {
        struct tt_frame frame = tt_outbox_frame(outbox, i);
        send_frame(self, role_self, outbox->frames[i].to, &frame);
    }
    tt_outbox_clear(outbox);
}
