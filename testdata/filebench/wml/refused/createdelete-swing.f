# Ten thousand times the same block, and file sets without a size of their own.
set $path=/tmp
set $nfiles=10000
eventgen rate=0
define fileset name=manyfiles,
	       path=$path,
	       entries=$nfiles,
	       size=500k,
	       filesizegamma=0,
	       dirwidth=$nfiles,
	       dirgamma=0

define flowop name=createandclose
{
	flowop createfile name=createfile, filesetname=manyfiles, fd=1
	flowop writewholefile name=writewholefile, filesetname=manyfiles, fd=1
	flowop closefile name=closefile, fd=1
}

define process name=crproc {
	thread name=crthread {
		flowop createandclose name=createandclose, iters=$nfiles
		flowop wakeup name=wakeupdelproc, target=delprocblock
		flowop block name=crprocblock
	}
}

define process name=delproc {
	thread name=delthread {
		flowop block name=delprocblock
		flowop deletefile name=dodelete, filesetname=manyfiles, iters=$nfiles
		flowop wakeup name=crprocwake, target=crprocblock
	}
}
run 60
