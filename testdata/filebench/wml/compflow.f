# Flow operations made of others, with variables of their own.
set $dir=/tmp
set $nfiles=700
set $nthreads=10
set $meaniosize=16k
define fileset name=files,path=$dir,size=128k,entries=$nfiles,dirwidth=20,prealloc=80, paralloc
define fileset name=more,path=$dir,size=128k,entries=$nfiles,dirwidth=20,prealloc=80, paralloc

define flowop name=readwrite, $fileset
{
  flowop openfile name=openfile4,filesetname=$fileset,fd=1
  flowop openfile name=openfile5,filesetname=$fileset,fd=2
  flowop readwholefile name=readfile1,fd=1
  flowop writewholefile name=writefile1,fd=2,srcfd=1
  flowop closefile name=closefile4,fd=1
  flowop closefile name=closefile5,fd=2
}

define flowop name=dowork, $filesetnm, $rwiters
{
  flowop createfile name=createfile1,filesetname=$filesetnm,fd=1
  flowop appendfilerand name=appendfilerand1,iosize=$meaniosize,fd=1
  flowop closefile name=closefile1,fd=1
  flowop readwrite name=rw1, iters=$rwiters, $fileset=$filesetnm
  flowop deletefile name=deletefile1,filesetname=$filesetnm
  flowop statfile name=statfile1,filesetname=$filesetnm
}

define process name=server,instances=1
{
  thread name=user1,memsize=10m,instances=$nthreads
  {
    flowop dowork name=dowork1, iters=1, $rwiters=5, $filesetnm=files
  }
  thread name=user2,memsize=10m,instances=$nthreads
  {
    flowop dowork name=dowork2, iters=1, $rwiters=4, $filesetnm=more
  }
}
run 30
