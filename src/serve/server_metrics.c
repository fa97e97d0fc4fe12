#include "serve/server_metrics.h"

#include "serve/domain.h"
#include "serve/scheduler.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void head(struct tt_text *page, const char *name, const char *help, const char *type) {
    tt_text_printf(page, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void integer(struct tt_text *page, const char *name, const char *help, const char *type,
                    int64_t value) {
    head(page, name, help, type);
    tt_text_printf(page, "%s %" PRId64 "\n", name, value);
}

static void seconds(struct tt_text *page, const char *name, const char *help, const char *type,
                    double value) {
    head(page, name, help, type);
    tt_text_printf(page, "%s %.9g\n", name, value);
}

/* ---- executors ---- */

static void executor_samples(void *context, int32_t index, const struct tt_domain *domain) {
    struct tt_text *page = context;
    for (int32_t e = 0; e < domain->meter.executor_count; e++)
        tt_text_printf(
            page,
            "tutti_executor_busy_seconds_total{domain=\"%d\",policy=\"%s\",executor=\"%d\"} %.9g\n",
            index, domain->policy, e, (double)tt_counter_get(&domain->meter.busy_ns[e]) / 1e9);
}

static void domain_samples(void *context, int32_t index, const struct tt_domain *domain) {
    tt_text_printf(context, "tutti_domain_executors{domain=\"%d\",policy=\"%s\"} %d\n", index,
                   domain->policy, domain->executor_count);
}

/* ---- the process ---- */

static int64_t open_files(void) {
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return 0;
    int64_t count = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count - 1; /* the folder itself */
}

static int64_t resident_bytes(void) {
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    long long size = 0, resident = 0;
    int read = fscanf(file, "%lld %lld", &size, &resident);
    fclose(file);
    return read == 2 ? resident * (int64_t)sysconf(_SC_PAGESIZE) : 0;
}

static double as_seconds(const struct timeval *time) {
    return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

static void process(struct tt_text *page) {
    struct rusage usage = {0};
    struct rlimit files = {0};
    getrusage(RUSAGE_SELF, &usage);
    getrlimit(RLIMIT_NOFILE, &files);
    seconds(page, "process_cpu_seconds_total", "User and system CPU time", "counter",
            as_seconds(&usage.ru_utime) + as_seconds(&usage.ru_stime));
    integer(page, "process_resident_memory_bytes", "Resident memory", "gauge", resident_bytes());
    integer(page, "process_open_fds", "Open file descriptors", "gauge", open_files());
    integer(page, "process_max_fds", "The limit of open file descriptors", "gauge",
            (int64_t)files.rlim_cur);
}

void tt_server_metrics(struct tt_serving *serving, struct tt_text *page) {
    struct tt_scheduler_stats scheduler = tt_scheduler_stats(serving);
    integer(page, "tutti_scheduler_turns_total", "Turns of the scheduler's loop", "counter",
            scheduler.turns);
    seconds(page, "tutti_scheduler_busy_seconds_total", "Time in the turns of the scheduler's loop",
            "counter", (double)scheduler.busy_ns / 1e9);
    head(page, "tutti_domain_executors", "Executors of each scheduling domain", "gauge");
    tt_scheduler_domains(serving, domain_samples, page);
    head(page, "tutti_executor_busy_seconds_total", "Time that each executor ran batches",
         "counter");
    tt_scheduler_domains(serving, executor_samples, page);
    struct tt_recorder *recorder = tt_scheduler_recorder(serving);
    if (recorder) {
        struct tt_recorder_stats recorded = tt_recorder_stats(recorder);
        integer(page, "tutti_recording_bytes_total", "Bytes of the recording on disk", "counter",
                recorded.bytes);
        integer(page, "tutti_recording_lost_events_total",
                "Events for which the recording had no room", "counter", recorded.lost_events);
    }
    process(page);
}
