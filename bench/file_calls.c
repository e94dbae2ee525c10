/*
 * A program whose calls 'fsb record' records, and 'fsb run --workload replay' repeats: it writes, reads and deletes small
 * files, one after the other.
 *
 *     cc -O2 -o file_calls file_calls.c
 *     file_calls DIRECTORY FILES
 *
 * prints nanoseconds from before its first call in the directory to after the last one.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RECORD 4096
#define RECORDS 8

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void check(int done, const char *call)
{
	if (!done) {
		perror(call);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	static char memory[RECORD];
	char name[32];
	struct stat attributes;
	uint64_t start;
	unsigned long files;

	if (argc != 3) {
		fprintf(stderr, "usage: file_calls DIRECTORY FILES\n");
		return 2;
	}
	files = strtoul(argv[2], NULL, 10);
	memset(memory, 1, sizeof memory);
	check(chdir(argv[1]) == 0, argv[1]);

	start = now_ns();
	for (unsigned long i = 0; i < files; i++) {
		int file;

		snprintf(name, sizeof name, "f%lu", i % 1000);
		check((file = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644)) >= 0, "create");
		for (int record = 0; record < RECORDS; record++)
			check(write(file, memory, RECORD) == RECORD, "write");
		check(close(file) == 0, "close");
		check(stat(name, &attributes) == 0, "stat");
		check((file = open(name, O_RDONLY)) >= 0, "open");
		for (int record = 0; record < RECORDS; record++)
			check(pread(file, memory, RECORD, (off_t)record * RECORD) == RECORD, "pread");
		check(close(file) == 0, "close");
		check(unlink(name) == 0, "unlink");
	}
	printf("%" PRIu64 "\n", now_ns() - start);
	return 0;
}
