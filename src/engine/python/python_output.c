#include "engine/python/python_output.h"

#include <errno.h>
#include <unistd.h>

enum { MARK = 1, READS = 16 /* per call: a process that prints without end stops no other */ };

void tt_python_output_end(struct tt_python_output *self, tt_python_line_fn *on_line,
                          void *context) {
    enum tt_log_level level = TT_LOG_INFO;
    const char *text = self->line;
    if (self->length == 0)
        return;
    self->line[self->length] = '\0';
    if (self->length >= 2 && text[0] == MARK) {
        level = text[1] == 'E' ? TT_LOG_ERROR : text[1] == 'W' ? TT_LOG_WARNING : TT_LOG_INFO;
        text += 2;
    }
    for (char *at = self->line; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = ' ';
    self->length = 0;
    on_line(context, level, text);
}

bool tt_python_output_read(struct tt_python_output *self, int fd, tt_python_line_fn *on_line,
                           void *context) {
    char bytes[4096];
    for (int reads = 0; reads < READS; reads++) {
        ssize_t got = read(fd, bytes, sizeof(bytes));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0;
        for (ssize_t i = 0; i < got; i++) {
            if (bytes[i] == '\n' || self->length == sizeof(self->line) - 1)
                tt_python_output_end(self, on_line, context);
            if (bytes[i] != '\n')
                self->line[self->length++] = bytes[i];
        }
    }
    return true;
}
