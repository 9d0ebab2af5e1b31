package kafka.server

import java.io.{DataInputStream, DataOutputStream, File, FileOutputStream, IOException, OutputStreamWriter}
import java.net.{InetSocketAddress, ServerSocket, Socket}
import java.nio.ByteBuffer
import java.nio.file.Files
import java.time.Duration
import java.util.{List => JavaList, Properties}
import java.util.concurrent.TimeUnit
import javax.security.auth.login.{AppConfigurationEntry, Configuration}
import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Using

import kafka.cluster.{EndPoint, Partition}
import kafka.controller.{ControllerContext, KafkaController}
import kafka.coordinator.transaction.TransactionCoordinator
import kafka.log.{LogManager, UnifiedLog}
import kafka.log.remote.RemoteLogManager
import kafka.network.SocketServer
import kafka.security.authorizer.AclAuthorizer
import kafka.server.metadata.ZkMetadataCache
import kafka.zk.{AdminZkClient, DelegationTokensZNode, KafkaZkClient}
import org.apache.kafka.common.{KafkaException, TopicPartition}
import org.apache.kafka.common.acl.{AccessControlEntry, AclBinding, AclBindingFilter, AclOperation, AclPermissionType}
import org.apache.kafka.common.config.types.Password
import org.apache.kafka.common.message.ListOffsetsRequestData
import org.apache.kafka.common.message.ListOffsetsRequestData.{ListOffsetsPartition, ListOffsetsTopic}
import org.apache.kafka.common.message.UpdateMetadataRequestData.{UpdateMetadataBroker, UpdateMetadataEndpoint, UpdateMetadataPartitionState}
import org.apache.kafka.common.metrics.Metrics
import org.apache.kafka.common.network.ListenerName
import org.apache.kafka.common.protocol.{ApiKeys, Message}
import org.apache.kafka.common.requests.{ListOffsetsResponse, MetadataRequest, MetadataResponse, RequestHeader, RequestUtils, ResponseHeader, UpdateMetadataRequest}
import org.apache.kafka.common.resource.{PatternType, Resource, ResourcePattern, ResourceType}
import org.apache.kafka.common.security.JaasUtils
import org.apache.kafka.common.security.auth.SecurityProtocol
import org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler
import org.apache.kafka.common.security.scram.internals.ScramMechanism
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache
import org.apache.kafka.common.utils.{Sanitizer, Time, Utils}
import org.apache.kafka.coordinator.group.GroupCoordinator
import org.apache.kafka.metadata.BrokerState
import org.apache.kafka.security.CredentialProvider
import org.apache.kafka.server.NodeToControllerChannelManager
import org.apache.kafka.server.common.MetadataVersion
import org.apache.kafka.server.authorizer.{AuthorizableRequestContext, Authorizer}
import org.apache.kafka.server.metrics.KafkaYammerMetrics
import org.apache.kafka.server.util.Scheduler
import org.apache.zookeeper.client.ZKClientConfig
import org.mockito.ArgumentMatchers.{any, anyBoolean, anyInt}
import org.mockito.Mockito.{mock, when}

/**
 * Stand-in for Kafka's broker in Kafka's own integration tests: a process of ours with the test's settings.
 *
 * It comes before Kafka's jar in the class path and has the name and the members of Kafka's class. What the tests look
 * up inside a broker (its metadata, its logs, its coordinators) is told from outside: from ZooKeeper, by requests, by the
 * files. What cannot be told so is null, or a mock that knows nothing, and such a test fails (known.txt).
 */
object KafkaServer {
  val MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS: Long = 120000

  /** Time that what was written to ZooKeeper takes, at most, to be known to every broker. */
  val SettlingMs = 200
  val StartMs = 60000
  val UserEntities = "users"
  val ClientEntities = "clients"
  val BrokerEntities = "brokers"
  val Default = "<default>"

  def zkClientConfigFromKafkaConfig(config: KafkaConfig, forceZkSslClientEnable: Boolean = false): ZKClientConfig = {
    val found = new ZKClientConfig
    if (!JaasUtils.isZkSaslEnabled) found.setProperty(JaasUtils.ZK_SASL_CLIENT, "false")
    found
  }
}

class KafkaServer(
  val config: KafkaConfig,
  time: Time = Time.SYSTEM,
  threadNamePrefix: Option[String] = None,
  enableForwarding: Boolean = false
) extends KafkaBroker with Server {
  import KafkaServer._

  private var process: Process = _
  private var zooKeeper: KafkaZkClient = _
  private var state = BrokerState.NOT_RUNNING
  private var authority: Option[Authorizer] = None
  private val said = File.createTempFile(s"broker-${config.brokerId}-", ".log", new File(System.getProperty("odradek.logs")))
  private val credentials =
    new CredentialProvider(ScramMechanism.mechanismNames, new DelegationTokenCache(ScramMechanism.mechanismNames))
  @volatile private var follower: Thread = _
  private var clientNames: ClientNames = _
  private lazy val metricsPort = Using.resource(new ServerSocket(0))(_.getLocalPort)
  private lazy val quotas = QuotaFactory.instantiate(config, metrics, time, s"stand-in-${config.brokerId}-")
  private var commonSettings, ownSettings = new Properties
  private val knownUsers, knownClients = mutable.Map.empty[String, Properties]
  /** Also those of a broker that has stopped. */
  private var lastListeners: collection.Seq[EndPoint] = Nil

  // The process.

  override def startup(): Unit = try start() catch {
    case refused: KafkaException =>
      shutdown()
      throw refused
  }

  private def start(): Unit = {
    val before = registeredEpoch
    val file = File.createTempFile(s"broker-${config.brokerId}-", ".properties")
    val out = new OutputStreamWriter(new FileOutputStream(file), "ISO-8859-1")
    try settings().store(out, null) finally out.close()
    val command = System.getProperty("odradek.command").split(" ").toSeq :+ file.getPath
    val starting = new ProcessBuilder(command.asJava).redirectErrorStream(true)
      .redirectOutput(ProcessBuilder.Redirect.appendTo(said))
    clientNames = new ClientNames(config)
    if (clientNames.told) starting.environment.put("CLIENT_NAMES_PORT", clientNames.port.toString)
    Option(System.getProperty("java.security.krb5.conf")).foreach(starting.environment.put("KRB5_CONFIG", _))
    process = starting.start()
    val deadline = System.currentTimeMillis + StartMs
    while (registeredEpoch == before || !Files.readString(said.toPath).contains("has started")) {
      if (!process.isAlive) throw new KafkaException(s"the broker ended with ${process.exitValue}: $lastWords")
      if (System.currentTimeMillis > deadline) throw new KafkaException(s"the broker has not started: $lastWords")
      Thread.sleep(20)
    }
    Thread.sleep(SettlingMs)
    state = BrokerState.RUNNING
    if (config.originals.getOrDefault("authorizer.class.name", "") != "") authority = Some(patientAuthorizer())
    if (decidesItself) authority.get.createAcls(null, decisions())
    config.dynamicConfig.initialize(None, None)
    lookAtZooKeeper()
    follower = new Thread(() => followZooKeeper(), "follower of ZooKeeper")
    follower.setDaemon(true)
    follower.start()
  }

  override def shutdown(timeout: Duration): Unit = {
    follower = null
    if (process != null && process.isAlive) {
      process.destroy()
      if (!process.waitFor(math.min(timeout.toMillis, StartMs), TimeUnit.MILLISECONDS)) process.destroyForcibly().waitFor()
    }
    state = BrokerState.NOT_RUNNING
    authority.foreach(_.close())
    authority = None
    if (process != null) {
      clientNames.close()
      quotas.shutdown()
    }
    synchronized {
      if (zooKeeper != null) zooKeeper.close()
      zooKeeper = null
    }
  }

  override def awaitShutdown(): Unit = if (process != null) process.waitFor()
  override def isShutdown(): Boolean = process == null || !process.isAlive
  override def brokerState: BrokerState = state

  /** The test's settings. What Kafka takes from the JAAS file of its Java machine stands in settings here. */
  private def settings(): Properties = {
    val found = new Properties
    config.originals.asScala.foreach {
      case (name, many: JavaList[_]) => found.setProperty(name, many.asScala.mkString(","))
      case (name, secret: Password) => found.setProperty(name, secret.value)
      case (name, one) => if (one != null) found.setProperty(name, one.toString)
    }
    if (config.interBrokerProtocolVersion.isAtLeast(MetadataVersion.IBP_4_0_IV0)) found.remove("inter.broker.protocol.version")
    found.stringPropertyNames.asScala.filter(_.endsWith("principal.builder.class")).foreach(found.remove) // ClientNames
    if (decidesItself) {
      found.setProperty("authorizer.class.name", "kafka.security.authorizer.AclAuthorizer")
      found.setProperty("allow.everyone.if.no.acl.found", "true") // before there are decisions()
    }
    if (time.milliseconds < System.currentTimeMillis - config.logRetentionTimeMillis)
      found.setProperty("log.retention.ms", "-1") // the test's clock is years behind, and its records are new by that
    found.setProperty("metrics.port", metricsPort.toString)
    if (System.getProperty("java.security.auth.login.config") != null) {
      Configuration.setConfiguration(null)
      for (entry <- Option(Configuration.getConfiguration.getAppConfigurationEntry("Client")).toSeq.flatten)
        found.putIfAbsent("zookeeper.sasl.jaas.config", line(entry))
      for {
        listener <- config.listeners.map(_.listenerName.value.toLowerCase)
        section <- Seq(s"$listener.KafkaServer", "KafkaServer")
        entry <- Option(Configuration.getConfiguration.getAppConfigurationEntry(section)).toSeq.flatten
        mechanism <- mechanisms(entry.getLoginModuleName)
      } {
        found.putIfAbsent(s"listener.name.$listener.$mechanism.sasl.jaas.config", line(entry))
        if (mechanism == "oauthbearer") // Kafka's default; ours wants it said
          found.putIfAbsent(s"listener.name.$listener.$mechanism.sasl.server.callback.handler.class", classOf[OAuthBearerUnsecuredValidatorCallbackHandler].getName)
      }
    }
    found
  }

  private def line(entry: AppConfigurationEntry): String = {
    val options = entry.getOptions.asScala.map { case (key, value) => s"""$key="$value"""" }.mkString(" ")
    s"${entry.getLoginModuleName} required $options;"
  }

  private def mechanisms(loginModule: String): Seq[String] = loginModule match {
    case plain if plain.contains("Plain") => Seq("plain")
    case scram if scram.contains("Scram") => Seq("scram-sha-256", "scram-sha-512")
    case bearer if bearer.contains("OAuth") => Seq("oauthbearer")
    case _ => Seq("gssapi")
  }

  private def lastWords: String = Files.readString(said.toPath).takeRight(1000)

  // What ZooKeeper tells.

  private def zk: KafkaZkClient = synchronized {
    if (zooKeeper == null)
      zooKeeper = KafkaZkClient.createZkClient("stand-in", Time.SYSTEM, config, zkClientConfigFromKafkaConfig(config))
    zooKeeper
  }
  def zkClient: KafkaZkClient = zk
  override def clusterId: String = zk.getClusterId.get
  private def registeredEpoch: Long =
    zk.getAllBrokerAndEpochsInCluster.collectFirst { case (broker, epoch) if broker.id == config.brokerId => epoch }.getOrElse(-1L)
  def advertisedListeners: collection.Seq[EndPoint] = {
    zk.getBroker(config.brokerId).foreach(found => lastListeners = found.endPoints)
    lastListeners
  }
  override def boundPort(listener: ListenerName): Int = advertisedListeners.find(_.listenerName == listener).get.port

  /** Follows what the tests look up in the broker's settings, quotas and credentials. */
  private def followZooKeeper(): Unit = while (follower eq Thread.currentThread) {
    try lookAtZooKeeper() catch { case _: Exception => } // ZooKeeper is away, or the test is over
    Thread.sleep(SettlingMs)
  }

  private def lookAtZooKeeper(): Unit = {
    val admin = new AdminZkClient(zk)
    val users = admin.fetchAllEntityConfigs(UserEntities) ++ admin.fetchAllChildEntityConfigs(UserEntities, ClientEntities)
    follow(users, knownUsers, new UserConfigHandler(quotas, credentials))
    follow(admin.fetchAllEntityConfigs(ClientEntities), knownClients, new ClientIdConfigHandler(quotas))
    val (common, own) =
      (admin.fetchEntityConfig(BrokerEntities, Default), admin.fetchEntityConfig(BrokerEntities, config.brokerId.toString))
    val settings = new BrokerConfigHandler(config, quotas)
    if (common != commonSettings) settings.processConfigChanges(Default, common)
    if (own != ownSettings) settings.processConfigChanges(config.brokerId.toString, own)
    commonSettings = common
    ownSettings = own
  }

  private def follow(now: collection.Map[String, Properties], known: mutable.Map[String, Properties], handler: ConfigHandler): Unit =
    for (one <- now.keySet ++ known.keySet) {
      val settings = now.getOrElse(one, new Properties)
      if (!known.get(one).contains(settings)) handler.processConfigChanges(one, settings)
      known(one) = settings
    }

  /** Whether the test has an authorizer of its own. Those that run with ours refuse one user, who has that name. */
  private def decidesItself: Boolean = config.originals.getOrDefault("authorizer.class.name", "").toString.contains("Test")

  private def decisions(): JavaList[AclBinding] = {
    val all = Seq(ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.DELEGATION_TOKEN).map(_ -> "*")
    for {
      (resource, name) <- all :+ (ResourceType.CLUSTER -> Resource.CLUSTER_NAME)
      (user, permission) <- Seq("*" -> AclPermissionType.ALLOW, "Unauthorized" -> AclPermissionType.DENY)
    } yield new AclBinding(new ResourcePattern(resource, name, PatternType.LITERAL),
      new AccessControlEntry(s"User:$user", "*", AclOperation.ALL, permission))
  }.asJava

  /** Kafka's own, for the tests to write access lists with: ours read them a moment later. */
  private def patientAuthorizer(): Authorizer = {
    val made = new AclAuthorizer {
      override def createAcls(context: AuthorizableRequestContext, lists: JavaList[AclBinding]) = {
        val done = super.createAcls(context, lists)
        Thread.sleep(SettlingMs)
        done
      }
      override def deleteAcls(context: AuthorizableRequestContext, filters: JavaList[AclBindingFilter]) = {
        val done = super.deleteAcls(context, filters)
        Thread.sleep(SettlingMs)
        done
      }
    }
    made.configure(config.originals)
    made
  }

  /** What the broker knows of the cluster: what ZooKeeper has, as far as the broker's own Metadata answer has it, too. */
  override def metadataCache: ZkMetadataCache = {
    val topics = zk.getAllTopicsInCluster()
    val assignments = zk.getReplicaAssignmentForTopics(topics)
    val told = if (authority.isDefined) None else toldEpochs()
    val partitions = zk.getTopicPartitionStates(assignments.keys.toSeq).toSeq.collect {
      case (partition, found) if told.forall(_.get(partition).exists(_ >= found.leaderAndIsr.leaderEpoch)) =>
        new UpdateMetadataPartitionState().setTopicName(partition.topic).setPartitionIndex(partition.partition)
          .setControllerEpoch(found.controllerEpoch).setLeader(found.leaderAndIsr.leader)
          .setLeaderEpoch(found.leaderAndIsr.leaderEpoch).setZkVersion(found.leaderAndIsr.partitionEpoch)
          .setIsr(found.leaderAndIsr.isr.map(Integer.valueOf).asJava)
          .setReplicas(assignments(partition).map(Integer.valueOf).asJava)
    }
    val brokers = zk.getAllBrokersInCluster.map { broker =>
      val endpoints = broker.endPoints.map(one => new UpdateMetadataEndpoint().setHost(one.host).setPort(one.port)
        .setListener(one.listenerName.value).setSecurityProtocol(one.securityProtocol.id))
      new UpdateMetadataBroker().setId(broker.id).setRack(broker.rack.orNull).setEndpoints(endpoints.asJava)
    }
    val cache = new ZkMetadataCache(config.brokerId, config.interBrokerProtocolVersion, BrokerFeatures.createEmpty())
    cache.updateMetadata(0, new UpdateMetadataRequest.Builder(ApiKeys.UPDATE_METADATA.latestVersion, zk.getControllerId.getOrElse(-1),
      1, 0, partitions.asJava, brokers.asJava, zk.getTopicIdsForTopics(topics).asJava).build())
    cache
  }

  // What requests tell, where a listener needs no login.

  private def exchange(api: ApiKeys, version: Short, body: Message): Option[ByteBuffer] =
    advertisedListeners.find(_.securityProtocol == SecurityProtocol.PLAINTEXT).flatMap { plain =>
      val socket = new Socket
      try {
        socket.connect(new InetSocketAddress(plain.host, plain.port), StartMs)
        socket.setSoTimeout(StartMs)
        val header = new RequestHeader(api, version, "stand-in", 1)
        val request = Utils.toArray(RequestUtils.serialize(header.data, header.headerVersion, body, version))
        val out = new DataOutputStream(socket.getOutputStream)
        out.writeInt(request.length)
        out.write(request)
        val in = new DataInputStream(socket.getInputStream)
        val answer = new Array[Byte](in.readInt())
        in.readFully(answer)
        val found = ByteBuffer.wrap(answer)
        ResponseHeader.parse(found, api.responseHeaderVersion(version))
        Some(found)
      } catch { case _: IOException => None } finally socket.close()
    }

  private def toldEpochs(): Option[Map[TopicPartition, Int]] = {
    val version: Short = 9
    val plain = config.listeners.exists(_.securityProtocol == SecurityProtocol.PLAINTEXT)
    def epochs(answer: ByteBuffer) = MetadataResponse.parse(answer, version).topicMetadata.asScala
      .flatMap(_.partitionMetadata.asScala).map(one => one.topicPartition -> one.leaderEpoch.orElse(-1).intValue).toMap
    if (plain) Some(exchange(ApiKeys.METADATA, version, MetadataRequest.Builder.allTopics().build(version).data).fold(Map.empty[TopicPartition, Int])(epochs))
    else None
  }

  /** An offset of this broker's replica, whoever leads: asked as Kafka's debugging clients ask. */
  private def offset(partition: TopicPartition, timestamp: Long): Long = {
    val version: Short = 7
    val asked = new ListOffsetsRequestData().setReplicaId(-2).setTopics(JavaList.of(new ListOffsetsTopic().setName(partition.topic)
      .setPartitions(JavaList.of(new ListOffsetsPartition().setPartitionIndex(partition.partition).setTimestamp(timestamp)))))
    exchange(ApiKeys.LIST_OFFSETS, version, asked).map(ListOffsetsResponse.parse(_, version).topics.get(0).partitions.get(0))
      .filter(_.errorCode == 0).fold(-1L)(_.offset)
  }

  // What the files tell.

  private def files: Seq[File] = config.logDirs.toSeq.flatMap(one => Option(new File(one).getAbsoluteFile.listFiles).toSeq.flatten)

  private def log(partition: TopicPartition, future: Boolean = false): Option[UnifiedLog] =
    files.find { one =>
      if (future) one.getName.startsWith(s"$partition.") && one.getName.endsWith("-future") else one.getName == partition.toString
    }.map { directory =>
      val found = mock(classOf[UnifiedLog])
      when(found.dir).thenReturn(directory)
      when(found.parentDir).thenReturn(directory.getParent)
      when(found.parentDirFile).thenReturn(directory.getParentFile)
      when(found.topicPartition).thenReturn(partition)
      when(found.numberOfSegments).thenAnswer(_ => directory.list.count(_.endsWith(".log")))
      when(found.logStartOffset).thenAnswer(_ => offset(partition, -2))
      when(found.logEndOffset).thenAnswer(_ => offset(partition, -1))
      when(found.highWatermark).thenAnswer(_ => offset(partition, -1))
      found
    }

  override def logManager: LogManager = {
    val found = mock(classOf[LogManager])
    when(found.getLog(any(), anyBoolean())).thenAnswer { call =>
      val (partition, future) = (call.getArgument[TopicPartition](0), call.getArgument[Boolean](1))
      log(partition, future).orElse { // it may just be moving from one directory to another
        Thread.sleep(SettlingMs)
        log(partition, future)
      }
    }
    when(found.liveLogDirs).thenReturn(config.logDirs.map(new File(_).getAbsoluteFile))
    when(found.logsByTopic(any())).thenAnswer { call =>
      val topic = call.getArgument[String](0)
      val numbers = files.map(_.getName).filter(_.startsWith(s"$topic-")).flatMap(_.stripPrefix(s"$topic-").toIntOption)
      numbers.flatMap(number => log(new TopicPartition(topic, number)))
    }
    found
  }
  def getLogManager: LogManager = logManager

  // Parts of a broker, as far as the tests ask for them.

  override def replicaManager: ReplicaManager = {
    val (found, logs, known) = (mock(classOf[ReplicaManager]), logManager, mock(classOf[ZkMetadataCache]))
    when(known.getPartitionInfo(any(), anyInt())).thenAnswer(call => metadataCache.getPartitionInfo(call.getArgument(0), call.getArgument[Int](1)))
    when(found.metadataCache).thenReturn(known)
    when(found.logManager).thenReturn(logs)
    when(found.localLog(any())).thenAnswer(call => log(call.getArgument(0)))
    when(found.getLog(any())).thenAnswer(call => log(call.getArgument(0)))
    when(found.onlinePartition(any())).thenAnswer { call =>
      val asked = call.getArgument[TopicPartition](0)
      metadataCache.getPartitionInfo(asked.topic, asked.partition).filter(_.replicas.contains(config.brokerId)).map { known =>
        val partition = mock(classOf[Partition])
        val leads = known.leader == config.brokerId
        when(partition.isLeader).thenReturn(leads)
        when(partition.leaderReplicaIdOpt).thenReturn(Option(known.leader).filter(_ >= 0))
        when(partition.getLeaderEpoch).thenReturn(known.leaderEpoch)
        when(partition.leaderLogIfLocal).thenAnswer(_ => if (leads) log(asked) else None)
        when(partition.inSyncReplicaIds).thenReturn(known.isr.asScala.map(_.toInt).toSet)
        partition
      }
    }
    found
  }

  override def dataPlaneRequestProcessor: KafkaApis = {
    val (found, cache, cluster) = (mock(classOf[KafkaApis]), metadataCache, clusterId)
    when(found.metadataCache).thenReturn(cache)
    when(found.clusterId).thenReturn(cluster)
    when(found.authorizer).thenReturn(authority)
    when(found.quotas).thenReturn(quotas)
    found
  }

  override def socketServer: SocketServer = {
    val found = mock(classOf[SocketServer])
    when(found.boundPort(any())).thenAnswer(call => boundPort(call.getArgument(0)))
    when(found.metrics).thenReturn(metrics)
    found
  }

  override def groupCoordinator: GroupCoordinator = {
    val found = mock(classOf[GroupCoordinator])
    val settings = config.groupCoordinatorConfig
    when(found.groupMetadataTopicConfigs).thenReturn(properties("cleanup.policy" -> "compact", "compression.type" -> "producer",
      "segment.bytes" -> settings.offsetsTopicSegmentBytes))
    when(found.partitionFor(any[String]())).thenAnswer(call => Utils.abs(call.getArgument[String](0).hashCode) % settings.offsetsTopicPartitions)
    found
  }

  def transactionCoordinator: TransactionCoordinator = {
    val found = mock(classOf[TransactionCoordinator])
    when(found.transactionTopicConfigs).thenReturn(properties("cleanup.policy" -> "compact", "compression.type" -> "uncompressed",
      "unclean.leader.election.enable" -> false, "min.insync.replicas" -> config.transactionTopicMinISR,
      "segment.bytes" -> config.transactionTopicSegmentBytes))
    when(found.partitionFor(any[String]())).thenAnswer(call => Utils.abs(call.getArgument[String](0).hashCode) % config.transactionTopicPartitions)
    found
  }

  def kafkaController: KafkaController = {
    val (found, context, topics) = (mock(classOf[KafkaController]), new ControllerContext, zk.getAllTopicsInCluster())
    context.setAllTopics(topics)
    zk.getTopicIdsForTopics(topics).foreach { case (topic, id) => context.addTopicId(topic, id) }
    val (active, epoch) = (zk.getControllerId.contains(config.brokerId), registeredEpoch)
    when(found.controllerContext).thenReturn(context)
    when(found.isActive).thenReturn(active)
    when(found.brokerEpoch).thenReturn(epoch)
    found
  }

  private def properties(settings: (String, Any)*): Properties = {
    val found = new Properties
    settings.foreach { case (name, value) => found.setProperty(name, value.toString) }
    found
  }

  override def authorizer: Option[Authorizer] = authority
  override def credentialProvider: CredentialProvider = credentials
  override lazy val metrics: Metrics = new ToldMetrics(config.brokerId, metricsPort)
  override def kafkaYammerMetrics: KafkaYammerMetrics = KafkaYammerMetrics.INSTANCE
  override def brokerTopicStats: BrokerTopicStats = new BrokerTopicStats
  override def remoteLogManagerOpt: Option[RemoteLogManager] = None
  override def dataPlaneRequestHandlerPool: KafkaRequestHandlerPool = null
  override def kafkaScheduler: Scheduler = null
  override def quotaManagers: QuotaFactory.QuotaManagers = {
    val handler = new TopicConfigHandler(null, config, quotas, None)
    for {
      (topic, settings) <- new AdminZkClient(zk).fetchAllEntityConfigs("topics")
      (name, manager) <- Seq("leader.replication.throttled.replicas" -> quotas.leader, "follower.replication.throttled.replicas" -> quotas.follower)
      if settings.containsKey(name)
    } manager.markThrottled(topic, handler.parseThrottledPartitions(settings, config.brokerId, name))
    quotas
  }
  override def clientToControllerChannelManager: NodeToControllerChannelManager = null
  override def tokenCache: DelegationTokenCache = {
    val found = new DelegationTokenCache(ScramMechanism.mechanismNames)
    for (id <- zk.getChildren(DelegationTokensZNode.path); token <- zk.getDelegationTokenInfo(id)) found.addToken(id, token)
    found
  }
}
