#include "net/sockets/short_write.h"

#include "base/text.h"

#include <stdlib.h>

struct short_write {
    uv_write_t write;
    struct tt_text text;
};

static void short_write_free(struct short_write *self) {
    tt_text_fini(&self->text);
    free(self);
}

static void on_written(uv_write_t *write, int status) {
    (void)status; /* a broken connection shows itself when it is read */
    short_write_free(write->data);
}

bool tt_short_write(uv_stream_t *stream, const char *bytes, size_t count) {
    uv_buf_t buffer = {.base = (char *)(uintptr_t)bytes, .len = count};
    int sent = uv_try_write(stream, &buffer, 1);
    size_t done = sent > 0 ? (size_t)sent : 0;
    if (done == count)
        return true;
    struct short_write *later = calloc(1, sizeof(*later));
    if (later) {
        tt_text_append(&later->text, bytes + done, count - done);
        buffer = (uv_buf_t){.base = later->text.bytes, .len = later->text.length};
        later->write.data = later;
    }
    if (later && !later->text.failed &&
        uv_write(&later->write, stream, &buffer, 1, on_written) == 0)
        return true;
    if (later)
        short_write_free(later);
    return false;
}
