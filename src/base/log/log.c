#include "base/log/log.h"

#include "base/clock.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A byte may become six; every line has room for its end. */
enum { TEXT_BYTES = 1500, ID_BYTES = 200, LINE_BYTES = 6 * (TEXT_BYTES + ID_BYTES) + 512 };

void tt_log_init(struct tt_log *self, int fd, bool is_json) {
    memset(self, 0, sizeof(*self));
    tt_log_settings_init(&self->settings);
    self->fd = fd;
    self->is_json = is_json;
    tt_lock_init(&self->lock);
}

void tt_log_fini(struct tt_log *self) { tt_lock_fini(&self->lock); }

/* ---- how often ---- */

/* The kind's entry: its own, a free one, or the one that was not used for longest. */
static struct tt_log_kind *kind_of(struct tt_log *self, const char *format) {
    struct tt_log_kind *oldest = &self->kinds[0];
    for (int i = 0; i < TT_LOG_KINDS; i++) {
        struct tt_log_kind *kind = &self->kinds[i];
        if (kind->format == format)
            return kind;
        if (!kind->format || kind->since_at < oldest->since_at)
            oldest = kind;
        if (!kind->format)
            break;
    }
    *oldest = (struct tt_log_kind){.format = format, .since_at = tt_clock_now()};
    return oldest;
}

/* True if a line of this kind may be written now; *out_left_out: how many were left out before it.
 */
static bool may_write(struct tt_log *self, const char *format, int32_t *out_left_out) {
    tt_lock_take(&self->lock);
    struct tt_log_kind *kind = kind_of(self, format);
    int64_t now = tt_clock_now();
    *out_left_out = 0;
    if (now - kind->since_at >= TT_S) {
        *out_left_out = kind->left_out;
        kind->since_at = now;
        kind->written = kind->left_out = 0;
    }
    bool may = kind->written < TT_LOG_PER_SECOND;
    if (may)
        kind->written++;
    else
        kind->left_out++;
    tt_lock_give(&self->lock);
    return may;
}

/* ---- how it looks ---- */

/* A buffer that keeps what fits. */
struct line {
    char bytes[LINE_BYTES];
    size_t length;
};

static void put(struct line *line, const char *format, ...) TT_PRINTF(2, 3);
static void put(struct line *line, const char *format, ...) {
    size_t room = LINE_BYTES - 2 - line->length; /* for the end of the line */
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(line->bytes + line->length, room, format, arguments);
    va_end(arguments);
    if (written > 0)
        line->length += (size_t)written < room ? (size_t)written : room - 1;
}

/* Other bytes would end the line, or the JSON. */
static void put_plain(struct line *line, const char *text) {
    for (; *text; text++)
        put(line, (unsigned char)*text < 32 || *text == 127 ? "\\x%02x" : "%c",
            (unsigned char)*text);
}

static void put_string(struct line *line, const char *text) {
    put(line, "\"");
    for (size_t left = strlen(text), step; left > 0; text += step, left -= step) {
        unsigned char c = (unsigned char)*text;
        size_t character = tt_utf8_step(text, left);
        step = character ? character : 1;
        if (c == '"' || c == '\\')
            put(line, "\\%c", c);
        else if (c < 32 || c == 127 || !character) /* no UTF-8: as if it were Latin 1 */
            put(line, "\\u%04x", c);
        else
            put(line, "%.*s", (int)step, text);
    }
    put(line, "\"");
}

static void compose(const struct tt_log *self, struct line *line, char letter, const char *level,
                    const char *request_id, const char *text) {
    int64_t wall_ns = tt_clock_wall();
    time_t whole = (time_t)(wall_ns / TT_S);
    struct tm parts;
    gmtime_r(&whole, &parts);
    char date[40];
    char id[ID_BYTES];
    snprintf(id, sizeof(id), "%s", request_id ? request_id : "");
    if (self->is_json) {
        strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &parts);
        put(line, "{\"time\":\"%s.%06dZ\",\"level\":\"%s\",\"pid\":%d,\"message\":", date,
            (int)(wall_ns % TT_S / 1000), level, (int)getpid());
        put_string(line, text);
        if (*id) {
            put(line, ",\"request_id\":");
            put_string(line, id);
        }
        put(line, "}");
        return;
    }
    if (tt_log_settings_iso8601(&self->settings)) {
        strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &parts);
        put(line, "%s %c %d] ", date, letter, (int)getpid());
    } else {
        strftime(date, sizeof(date), "%m%d %H:%M:%S", &parts);
        put(line, "%c%s.%06d %d] ", letter, date, (int)(wall_ns % TT_S / 1000), (int)getpid());
    }
    if (*id) {
        put(line, "[request ");
        put_plain(line, id);
        put(line, "] ");
    }
    put_plain(line, text);
}

static void write_line(const struct tt_log *self, struct line *line) {
    line->bytes[line->length++] = '\n';
    ssize_t written = write(self->fd, line->bytes, line->length);
    (void)written; /* there is no place to report this */
}

static const struct {
    char letter;
    const char *name;
} levels[] = {[TT_LOG_ERROR] = {'E', "error"},
              [TT_LOG_WARNING] = {'W', "warning"},
              [TT_LOG_INFO] = {'I', "info"}};

static void write_text(const struct tt_log *self, enum tt_log_level level, const char *request_id,
                       const char *text) {
    struct line line = {.length = 0};
    compose(self, &line, levels[level].letter, levels[level].name, request_id, text);
    write_line(self, &line);
}

void tt_log_write(struct tt_log *self, enum tt_log_level level, const char *request_id,
                  const char *format, ...) {
    if (!self || !tt_log_settings_on(&self->settings, level))
        return;
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    write_text(self, level, request_id, text);
}

TT_PRINTF(5, 0)
static void write_format(struct tt_log *self, enum tt_log_level level, bool is_limited,
                         const char *request_id, const char *format, va_list arguments) {
    int32_t left_out = 0;
    if (is_limited && !may_write(self, format, &left_out))
        return;
    char text[TEXT_BYTES];
    int length = vsnprintf(text, sizeof(text), format, arguments);
    if (left_out > 0 && length >= 0 && (size_t)length < sizeof(text))
        snprintf(text + length, sizeof(text) - (size_t)length,
                 " (and %d more of the kind before it)", left_out);
    write_text(self, level, request_id, text);
}

void tt_log_limited(struct tt_log *self, enum tt_log_level level, const char *request_id,
                    const char *format, ...) {
    if (!self || !tt_log_settings_on(&self->settings, level))
        return;
    va_list arguments;
    va_start(arguments, format);
    write_format(self, level, true, request_id, format, arguments);
    va_end(arguments);
}

void tt_log_always(struct tt_log *self, enum tt_log_level level, bool is_limited,
                   const char *format, ...) {
    if (!self)
        return;
    va_list arguments;
    va_start(arguments, format);
    write_format(self, level, is_limited, NULL, format, arguments);
    va_end(arguments);
}

void tt_log_verbose(struct tt_log *self, uint32_t level, const char *request_id, const char *format,
                    ...) {
    if (!tt_log_wants_verbose(self, level))
        return;
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    struct line line = {.length = 0};
    compose(self, &line, 'I', "verbose", request_id, text);
    write_line(self, &line);
}
