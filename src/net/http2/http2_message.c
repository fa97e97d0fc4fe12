#include "net/http2/http2_message.h"

void tt_http2_message_init(struct tt_http2_message *self, tt_http2_release_fn *release) {
    /* Not cleared as a whole: its array is long and mostly unused. */
    self->node = (struct tt_list_node){0};
    self->release = release;
    tt_text_init(&self->text);
    self->left_bytes = self->at_bytes = 0;
    self->count = self->at = 0;
}

void tt_http2_message_fini(struct tt_http2_message *self) { tt_text_fini(&self->text); }

static void add(struct tt_http2_message *self, const void *bytes, size_t offset,
                size_t size_bytes) {
    tt_assert(self->count < TT_HTTP2_MESSAGE_PIECES);
    self->pieces[self->count].bytes = bytes;
    self->pieces[self->count].offset = offset;
    self->pieces[self->count++].size_bytes = size_bytes;
    self->left_bytes += size_bytes;
}

void tt_http2_message_add_text(struct tt_http2_message *self) {
    size_t from = 0;
    for (int32_t i = self->count - 1; i >= 0; i--)
        if (!self->pieces[i].bytes) {
            from = self->pieces[i].offset + self->pieces[i].size_bytes;
            break;
        }
    if (self->text.length > from)
        add(self, NULL, from, self->text.length - from);
}

void tt_http2_message_add(struct tt_http2_message *self, const void *bytes, size_t size_bytes) {
    if (size_bytes < TT_HTTP2_COPY_BYTES) {
        tt_text_append(&self->text, bytes, size_bytes);
        return;
    }
    tt_http2_message_add_text(self);
    add(self, bytes, 0, size_bytes);
}

const char *tt_http2_message_take(struct tt_http2_message *self, size_t limit_bytes,
                                  size_t *out_bytes) {
    tt_assert(self->at < self->count);
    const char *bytes = self->pieces[self->at].bytes;
    if (!bytes)
        bytes = self->text.bytes + self->pieces[self->at].offset;
    bytes += self->at_bytes;
    size_t count = self->pieces[self->at].size_bytes - self->at_bytes;
    if (count > limit_bytes) {
        count = limit_bytes;
        self->at_bytes += count;
    } else {
        self->at++;
        self->at_bytes = 0;
    }
    tt_assert(self->left_bytes >= count);
    self->left_bytes -= count;
    *out_bytes = count;
    return bytes;
}
